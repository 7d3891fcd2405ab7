"""Several at once."""

from checking import *


@check
def replace_atomically():
    put("a", b"0" * 1000)
    stop = []
    bad = []

    def reader():
        while not stop:
            data = content("a")
            if len(set(data)) != 1 or len(data) != 1000:
                bad.append(data[:20])

    t = threading.Thread(target=reader)
    t.start()
    for i in range(200):
        put("new", b"%d" % (i % 10) * 1000)
        os.rename("new", "a")
    stop.append(1)
    t.join()
    say(bad)


@check
def create_and_unlink_in_parallel():
    wins = []

    def racer():
        for i in range(100):
            try:
                os.close(os.open(f"f{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                wins.append(i)
            except FileExistsError:
                pass

    threads = [threading.Thread(target=racer) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    say(sorted(wins) == list(range(100)), len(listing()))
    gone = []

    def remover():
        for i in range(100):
            try:
                os.unlink(f"f{i}")
                gone.append(i)
            except FileNotFoundError:
                pass

    threads = [threading.Thread(target=remover) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    say(sorted(gone) == list(range(100)), listing())


@check
def mkdir_and_rename_in_parallel():
    wins = []

    def racer(n):
        for i in range(50):
            try:
                os.mkdir(f"d{i}")
                wins.append(i)
            except FileExistsError:
                pass
            try:
                os.rename(f"d{i}", f"e{i}")
            except OSError:
                pass

    threads = [threading.Thread(target=racer, args=(n,)) for n in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    names = listing()
    say(len(wins) >= 50, all(f"e{i}" in names or f"d{i}" in names for i in range(50)))


@check
def writes_in_parallel_do_not_mix():
    put("a", b"\0" * 80000)

    def writer(n):
        fd = os.open("a", os.O_RDWR)
        for i in range(100):
            os.pwrite(fd, b"%d" % n * 100, n * 10000 + i * 100)

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    say(content("a") == b"".join(b"%d" % n * 10000 for n in range(8)))


@check
def o_excl_lock_files():
    r, w = os.pipe()
    pids = []
    for n in range(5):
        pid = os.fork()
        if pid == 0:
            for _ in range(20):
                while True:
                    try:
                        os.close(os.open("lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                        break
                    except FileExistsError:
                        time.sleep(0.0005)
                value = int(open("count").read()) if os.path.exists("count") else 0
                put("count", b"%d" % (value + 1))
                os.unlink("lock")
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    say(content("count"))


@check
def swap_directories_under_readers():
    os.mkdir("cur")
    put("cur/v", b"0")
    for i in range(1, 60):
        os.mkdir("next")
        put("next/v", b"%d" % i)
        exchange("cur", "next")
        assert content("cur/v") == b"%d" % i
        os.unlink("next/v")
        os.rmdir("next")
    say(content("cur/v"))
