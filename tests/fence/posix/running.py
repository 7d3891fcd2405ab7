"""Running programs."""

from checking import *


@check
def exec_of_scripts():
    put("s", b"#!/bin/sh\necho ran $0 $1\nexit 3\n")
    say(child(lambda: os.execv("./s", ["s"])))
    os.chmod("s", 0o755)
    r = subprocess.run(["./s", "arg"], stdout=subprocess.PIPE)
    say(r.stdout, r.returncode)
    put("n", b"#!/no/such/interpreter\n")
    os.chmod("n", 0o755)
    say(child(lambda: os.execv("./n", ["n"])))
    put("g", b"garbage")
    os.chmod("g", 0o755)
    say(child(lambda: os.execv("./g", ["g"])))


@check
def exec_of_binaries():
    import shutil

    shutil.copy("/bin/true", "t")
    say(subprocess.run(["./t"]).returncode)
    os.chmod("t", 0o644)
    say(child(lambda: os.execv("./t", ["t"])))


@check
def exec_only_permission():
    import shutil

    shutil.copy("/bin/true", "t")
    os.chmod("t", 0o111)
    say(child(lambda: os.execv("./t", ["t"])), opened("t"))


@check
def fexecve_and_memory():
    import shutil

    shutil.copy("/bin/true", "t")
    fd = os.open("t", os.O_RDONLY)
    say(child(lambda: os.execve(fd, ["t"], {})))


@check
def text_file_busy():
    import shutil

    shutil.copy("/bin/sleep", "s")
    os.chmod("s", 0o755)
    p = subprocess.Popen(["./s", "5"])
    try:
        for _ in range(200):
            if os.readlink(f"/proc/{p.pid}/exe").endswith("/s"):
                break
            time.sleep(0.01)
        say(opened("s", os.O_WRONLY), attempt(os.truncate, "s", 0), attempt(os.unlink, "s"), p.poll())
    finally:
        p.kill()
        p.wait()
    shutil.copy("/bin/true", "t")
    fd = os.open("t", os.O_RDWR)
    say(child(lambda: os.execv("./t", ["t"])))


@check
def exec_after_writing():
    for i in range(10):
        put("s", b"#!/bin/sh\nexit %d\n" % i)
        os.chmod("s", 0o755)
        say(subprocess.run(["./s"]).returncode)


@check
def shared_libraries():
    put("l.c", b"int answer(void) { return 42; }\n")
    r = subprocess.run(["cc", "-shared", "-fPIC", "-o", "l.so", "l.c"], stderr=subprocess.DEVNULL)
    say(r.returncode, ctypes.CDLL("./l.so").answer() if r.returncode == 0 else None)


@check
def running_program_replaced():
    put("s", b"#!/bin/sh\nsleep 0.2\necho old\n")
    os.chmod("s", 0o755)
    p = subprocess.Popen(["./s"], stdout=subprocess.PIPE)
    put("n", b"#!/bin/sh\necho new\n")
    os.chmod("n", 0o755)
    os.rename("n", "s")
    say(p.communicate()[0] in (b"old\n", b"new\n"), subprocess.run(["./s"], stdout=subprocess.PIPE).stdout)
