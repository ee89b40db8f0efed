"""Ctrl-C ends what runs within a second, and other threads of Python go on meanwhile."""

import signal
import subprocess
import sys
import threading
import time
import unittest

import seekless

CALLS = {
    "compare": 'seekless.compare(["none", "borg"], trace=trace)',
    "run": 'seekless.run("none", workload="oltp", requests=10**9)',
    "figure": 'seekless.figure("freeblock-5", requests=100_000)',
    "statistics": "[trace.stats() for _ in range(1000)]",
    "fit": "drive.fit(measured)",
    "read": '[seekless.read("data/appstart2") for _ in range(1000)]',
}
PROGRAM = """
import tempfile
from pathlib import Path
import seekless
trace = seekless.read("data/mail")
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "measured.trace")
    lines = [f"R Miss {{n * n * 48271 % 10**7}} 8 {{9000 + n * 7919 % 8000}}.000 0.000" for n in range(9000)]
    file.write_text(chr(10).join(lines))
    measured = seekless.read(file, format="disksim-validate")
drive = seekless.Drive("quantum-atlas-10k-disksim")
print("ready", flush=True)
try:
    {}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class Signals(unittest.TestCase):
    def test_ctrl_c_ends_what_runs_within_a_second(self):
        for name, call in CALLS.items():
            with self.subTest(name):
                command = [sys.executable, "-c", PROGRAM.format(call)]
                with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
                    self.assertEqual(running.stdout.readline(), "ready\n")
                    time.sleep(0.3)
                    sent = time.monotonic()
                    running.send_signal(signal.SIGINT)
                    self.assertEqual(running.stdout.readline(), "interrupted\n")
                    self.assertLess(time.monotonic() - sent, 1.0)

    def test_ctrl_c_ends_the_program_at_once(self):
        command = [sys.executable, "-m", "seekless", "lab", "run", "--layer", "none"]
        command += ["--workload", "oltp", "--requests", "1000000000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
            time.sleep(1)
            running.send_signal(signal.SIGINT)
            self.assertEqual(running.wait(timeout=10), -signal.SIGINT)

    def test_other_threads_go_on(self):
        ended = threading.Event()

        def work():
            seekless.run("none", workload="oltp", requests=20_000)
            ended.set()

        thread = threading.Thread(target=work)
        thread.start()
        turns = 0
        while not ended.wait(0.001):
            turns += 1
        thread.join()
        self.assertGreater(turns, 10)


if __name__ == "__main__":
    unittest.main()
