"""The same things done to a plain filesystem and to the fence. Run in an empty directory; prints what came of each check.

    posix_script.py [CHECK...]
    posix_script.py --make-lower DIR
"""

# One module per subject; each adds its checks as it is imported, and they run in this order.
import opening
import writing
import sizes
import mapping
import attributes
import names
import renaming
import links
import unlinked
import directories
import locks
import running
import special
import descriptors
import parallel
from checking import *
from lower import make_lower


def main(names):
    home = os.getcwd()
    os.umask(0o022)
    os.mkdir("checks")
    for name in names or CHECKS:
        where = os.path.join(home, "checks", name)
        os.mkdir(where)
        os.chdir(where)
        say("==", name)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                CHECKS[name]()
            except BaseException as e:
                say("raised", type(e).__name__, name_of(e.errno) if isinstance(e, OSError) and e.errno else e)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        os.chdir(home)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--make-lower"]:
        make_lower(sys.argv[2])
    else:
        main(sys.argv[1:])
