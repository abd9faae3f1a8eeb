"""Runs Horovod's own elastic launcher in the script's Python; Muster starts its processes on the run's nodes.

Beside Horovod it may use nothing but an old standard library.
"""

import itertools
import json
import os
import socket
import socketserver
import sys
import threading
import time

# The folder of this file comes first otherwise, and its modules would be taken for packages of the same names.
_HERE = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
sys.path[:] = [path for path in sys.path if os.path.realpath(path or ".") != _HERE]

from horovod.runner.common.util import config_parser  # noqa: E402
from horovod.runner.common.util.hosts import INVALID_SLOT_INFO  # noqa: E402
from horovod.runner.common.util.timeout import TimeoutException  # noqa: E402
from horovod.runner.elastic import driver as elastic_driver  # noqa: E402
from horovod.runner.elastic.discovery import HostDiscovery, HostManager  # noqa: E402
from horovod.runner.elastic.rendezvous import create_rendezvous_handler  # noqa: E402
from horovod.runner.elastic.worker import HostUpdateResult  # noqa: E402
from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars  # noqa: E402
from horovod.runner.http.http_server import RendezvousHTTPServer, RendezvousServer  # noqa: E402
from horovod.runner.launch import parse_args  # noqa: E402

AGAIN = "~"
"""Horovod never uses a host again on which a process failed. One that may be used again gets another name."""
PATIENCE = 5.0
"""Seconds for the cause to show itself, when all that failed so far only complain about a lost peer."""
TOO_FEW = 121
"""The exit code where there were not enough slots: the one of a run that was not ready in time."""


class Main:
    """Main's side of the control channel, which starts processes on the nodes."""

    def __init__(self, members):
        host, _, port = os.environ.pop("MUSTER_CONDUCTOR").partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._lock = threading.Lock()
        self._members = members
        self._ended = {}
        self._agreed = threading.Event()
        self.say({"token": os.environ.pop("MUSTER_CONDUCTOR_TOKEN")})
        self.say({"watch": True})
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, value):
        with self._lock:
            self._socket.sendall(json.dumps(value).encode() + b"\n")

    def hire(self, name, node, order):
        """Starts a process; what it returns is set when the process has ended."""
        ended = self._ended[name] = Ended()
        self.say({"hire": name, "node": node, "order": order})
        return ended

    def dismiss(self, name):
        self.say({"dismiss": name})

    def blame(self, names):
        """Tells whose failure it was, and waits until that is known."""
        self.say({"cause": names})
        self._agreed.wait(5)

    def _listen(self):
        for line in self._socket.makefile("rb"):
            value = json.loads(line)
            if "hosts" in value:
                self._members.told(value["hosts"])
            elif "ended" in value:
                ended = self._ended.pop(value["ended"])
                ended.code, ended.complaint = value["code"], value["complaint"]
                ended.set()
            elif "noted" in value:
                self._agreed.set()
        os._exit(1)  # without main nobody is left to start or to end anything


class Ended(threading.Event):
    """The end of a process, and how it ended."""

    code = 1
    complaint = False


class Members(HostDiscovery):
    """The nodes of the run as Horovod's hosts."""

    def __init__(self, retries):
        self._retries = retries
        self.slots = {}
        self.known = threading.Event()
        """There is somebody."""
        self._names = {}
        """How many names each node has had before the one it has now."""
        self._failures = {}
        self.failed_for_good = set()

    def told(self, slots):
        """Main says who is here. One that went away and came back may be another machine."""
        for node in set(self.slots).difference(slots):
            self._rename(node)
        self.slots = slots
        if slots:
            self.known.set()

    def find_available_hosts_and_slots(self):
        return {self._name(node): slots for node, slots in self.slots.items()}

    def failed(self, host):
        """A process failed there. The node may try again while the job has retries left."""
        node = node_of(host)
        if host != self._name(node):
            return  # another process of it failed before, or the whole node was lost
        if self._failures.get(node, 0) < self._retries:
            self._failures[node] = self._failures.get(node, 0) + 1
            self._rename(node)
        else:
            self.failed_for_good.add(node)

    def most(self, nodes):
        """How many processes could still run, if all came that are missing of so many nodes."""
        here = {node: slots for node, slots in self.slots.items() if node not in self.failed_for_good}
        return sum(here.values()) + (nodes - len(self.slots)) * max(self.slots.values(), default=1)

    def order(self, host):
        """Main first, then by number, so that ranks do not change places from one start to the next."""
        role, _, number = node_of(host).partition("-")
        return (role != "main", role, int(number) if number.isdigit() else 0, number, host)

    def _rename(self, node):
        self._names[node] = self._names.get(node, 0) + 1
        self.failed_for_good.discard(node)

    def _name(self, node):
        names = self._names.get(node, 0)
        return f"{node}{AGAIN}{names}" if names else node


def node_of(host):
    return host.partition(AGAIN)[0]


class Server(RendezvousHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def server_bind(self):
        # The one of HTTPServer asks for the name of the address too, for which some networks take long.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request, client_address):
        """A process that was ended while it waited for an answer is no error of ours: its end is told elsewhere."""
        if not isinstance(sys.exc_info()[1], (OSError, RuntimeError)):
            super().handle_error(request, client_address)


class Rendezvous(RendezvousServer):
    """Listens at the node's own address and on the port that is known for it, instead of everywhere on a random one."""

    def __init__(self, address, port, verbose):
        super().__init__(verbose)
        self._place = (address, port)

    def start(self, handler_cls):
        self._httpd = Server(self._place, handler_cls, self._verbose)
        self._listen_thread = threading.Thread(target=self._httpd.serve_forever, daemon=True)
        self._listen_thread.start()
        return self._place[1]

    def stop(self):
        """Nothing: it ends with us, and waiting for that would hold up the end of the run."""


def rendezvous_handler(driver, rank_at, farewell):
    class Handler(create_rendezvous_handler(driver)):
        def _get_rank_and_size(self, host, local_rank):
            rank = rank_at(host, local_rank)
            if rank.ended.is_set():
                # It outlived its node. It counts as failed, and must not be counted once more.
                return INVALID_SLOT_INFO.to_response_string().encode()
            answer = super()._get_rank_and_size(host, local_rank)
            if not driver.has_rank_assignment(host, local_rank):
                # The answer would make it abort with a message that reads like a failure.
                farewell(rank)
            return answer

    return Handler


class Driver(elastic_driver.ElasticDriver):
    """Horovod's own, and what it lacks."""

    too_few = ""
    """Set when it has waited in vain for slots."""

    def wait_for_available_slots(self, min_num_proc, min_hosts=1):
        try:
            return super().wait_for_available_slots(min_num_proc, min_hosts)
        except TimeoutException:
            here = self._host_manager.current_hosts
            each = ", ".join(f"{host} {here.get_slots(host)}" for host in here.host_assignment_order)
            found = f"only {here.count_available_slots()} of {min_num_proc} slots were there ({each or 'none'})"
            self.too_few = f"{found} after {self._timeout:g} s, the job's start_timeout"
            raise

    def remind(self):
        """Tells rank 0 of hosts that came or went, again and again.

        Horovod does it once, and what starts or changes over at that moment never hears of it.
        """
        while not self.finished():
            time.sleep(1)
            try:
                self._notify_workers_host_changes(self._host_manager.current_hosts, HostUpdateResult.mixed)
            except ValueError:
                continue  # a host failed just now, and too few are left

    def rendezvous(self):
        """How often the processes have come together."""
        return self._worker_registry.last_rendezvous()


class Launch:
    """One launch by Horovod's driver, from its first process to its exit code."""

    def __init__(self, settings):
        self._settings = settings
        self._members = Members(settings["retries"])
        self._main = Main(self._members)
        self._ranks = {}
        self._failures = {}
        self._count = itertools.count(1)
        self._began = False

    def run(self):
        settings = self._settings
        self._members.known.wait()
        least = least_processes(settings, self._members.slots)
        sys.argv[1:] = ["-np", str(least), *settings["args"], "true"]
        args = parse_args()
        if args.command != ["true"]:
            tell(f"start_args: {args.command[0]!r} is no argument of horovodrun, which takes options alone")
            return 2
        # A host that failed is used again after a while.
        self._forgiving = bool(args.cooldown_range)
        # Discovery reads a dictionary, so it may be often; and it decides how soon a new size is noticed.
        elastic_driver.DISCOVER_HOSTS_FREQUENCY_SECS = 0.2
        # In whole seconds, the second of two changes within one would not count as news.
        elastic_driver._epoch_time_s = time.time
        HostManager.order_available_hosts = staticmethod(self._ordered)
        rendezvous = Rendezvous(settings["address"], settings["port"], int(args.verbose))
        self._driver = driver = Driver(
            rendezvous,
            self._members,
            least,
            settings["max_np"],
            timeout=args.elastic_timeout or settings["timeout"],
            reset_limit=args.reset_limit,
            cooldown_range=args.cooldown_range,
            verbose=2 if args.verbose else 0,
        )
        handler = rendezvous_handler(driver, self._rank_at, self._farewell)
        self._env = self._environment(args, rendezvous.start(handler))
        try:
            driver.wait_for_available_slots(least)
        except TimeoutException:
            return self._verdict(None)
        self._began = True
        driver.start(least, self._start)
        if settings["elastic"]:
            threading.Thread(target=driver.remind, daemon=True).start()
        return self._verdict(self._results(driver, least))

    def _results(self, driver, least):
        """What the driver says when it is done; None where it would wait for nothing."""
        found = []
        done = threading.Event()

        def get():
            found.append(driver.get_results())
            done.set()

        threading.Thread(target=get, daemon=True).start()
        while not done.wait(0.05):
            if self._failures and (self._hopeless(least) if self._settings["elastic"] else self._cause_is_known()):
                return None
        return found[0]

    def _cause_is_known(self):
        """A fixed size has nobody to go on with after a loss: the run's own retries start all of it again."""
        failed = list(self._failures.values())
        return not all(one.complaint for one in failed) or time.time() > min(one.at for one in failed) + PATIENCE

    def _hopeless(self, least):
        """Horovod would wait for slots that cannot come: too many nodes have failed for good."""
        most = self._members.most(self._settings["nodes"])
        if most < least and not self._forgiving:
            failed = ", ".join(sorted(self._members.failed_for_good, key=self._members.order))
            tell(f"{least} processes are wanted, and no more than {most} can run: {failed} failed")
            return True
        return False

    def _verdict(self, results):
        """The exit code; and main is told whose failure it was."""
        failed, unwell = list(self._failures.values()), self._driver.too_few
        if results:
            unwell = results.error_message or unwell
            last = [self._failures[name] for name in results.worker_results if name in self._failures]
            if not last and not unwell:
                return 0 if results.worker_results else 1
            failed = last or failed
        if unwell:
            tell(unwell)
        if not failed:
            return TOO_FEW if self._driver.too_few else 1
        # What the run has survived is not what it ends of.
        latest = max(one.rendezvous for one in failed)
        failed = [one for one in failed if one.rendezvous == latest]
        self._main.blame([one.hire for one in failed])
        return min(failed, key=lambda one: (one.complaint, one.at)).code

    # --- processes ---------------------------------------------------------------------------------------

    def _start(self, slot, events):
        """Has a process started for a slot, and waits for its end: what Horovod calls a worker function."""
        order = {"rank": slot.rank, "env": dict(self._env, **create_slot_env_vars(slot))}
        hire = str(next(self._count))
        rank = Rank(hire, self._main.hire(hire, node_of(slot.hostname), order))
        self._ranks[slot.hostname, slot.local_rank] = rank
        while not rank.ended.wait(0.2):
            if any(event.is_set() for event in events):
                self._dismiss(rank)
        rank.at, rank.code, rank.complaint = time.time(), rank.ended.code, rank.ended.complaint
        if rank.code and not rank.dismissed and self._driver.has_rank_assignment(slot.hostname, slot.local_rank):
            rank.rendezvous = self._driver.rendezvous()
            self._members.failed(slot.hostname)
            self._failures[f"{slot.hostname}[{slot.local_rank}]"] = rank
        return rank.code, rank.at

    def _rank_at(self, host, local_rank):
        return self._ranks[host, local_rank]

    def _farewell(self, rank):
        """Ends a process that has no rank any more, and waits for its end."""
        self._dismiss(rank)
        rank.ended.wait(60)

    def _dismiss(self, rank):
        if not rank.dismissed:
            rank.dismissed = True
            self._main.dismiss(rank.hire)

    def _environment(self, args, port):
        env = {}
        config_parser.set_env_from_args(env, args)
        run = create_run_env_vars(self._settings["address"], [""], port, elastic=True)
        # Which interface a node has is known there.
        return {name: str(value) for name, value in dict(run, **env).items() if value != ""}

    def _ordered(self, available, previous):
        """Who has computed longest comes first, for rank 0 tells the others where they are."""
        known = [host for host in previous if host in available] if self._began else []
        return known + sorted(available.difference(known), key=self._members.order)


def least_processes(settings, slots):
    """How many processes are enough. Nodes that have not come are taken for like the smallest of those that have."""
    workers, count = sorted(slots[node] for node in slots if node != "main"), settings["workers"]
    least = settings["min_np"] or slots.get("main", 0) + sum((workers + workers[:1] * count)[:count])
    return max(1, min(least, settings["max_np"] or least))


class Rank:
    """A process that was started for a slot."""

    dismissed = False

    def __init__(self, hire, ended):
        self.hire, self.ended = hire, ended


def tell(text):
    print(f"muster: {text}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    code = Launch(json.loads(sys.argv[1])).run()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the driver may still wait for processes that end with us.
    os._exit(code)
