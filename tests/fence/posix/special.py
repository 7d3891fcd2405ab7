"""FIFOs, sockets, device nodes."""

from checking import *


@check
def fifos():
    os.mkfifo("p")
    t = threading.Thread(target=lambda: put("p", b"through", os.O_WRONLY))
    t.start()
    say(content("p"))
    t.join()
    say(opened("p", os.O_WRONLY | os.O_NONBLOCK), st("p"), attempt(os.mkfifo, "p"), attempt(os.rename, "p", "q"), st("q"))


@check
def unix_sockets():
    s = socket.socket(socket.AF_UNIX)
    say(attempt(s.bind, "s"), st("s"), attempt(socket.socket(socket.AF_UNIX).bind, "s"))
    s.listen()
    c = socket.socket(socket.AF_UNIX)
    c.connect("s")
    peer = s.accept()[0]
    peer.send(b"hello")
    say(c.recv(10), opened("s"))
    os.rename("s", "t")
    d = socket.socket(socket.AF_UNIX)
    say(attempt(d.connect, "t"), attempt(socket.socket(socket.AF_UNIX).connect, "s"))
    os.unlink("t")
    say(attempt(socket.socket(socket.AF_UNIX).connect, "t"))


@check
def device_nodes_are_refused():
    say(
        attempt(os.mknod, "c", stat.S_IFCHR | 0o666, os.makedev(1, 3)),
        attempt(os.mknod, "b", stat.S_IFBLK | 0o666, os.makedev(7, 0)),
        listing(),
    )


@check
def mknod_of_a_regular_file():
    say(
        attempt(os.mknod, "f", stat.S_IFREG | 0o640),
        st("f"),
        attempt(os.mknod, "f"),
        attempt(os.mknod, "s", stat.S_IFSOCK | 0o600),
        st("s"),
    )
