"""Runs `cargo test` with the arguments given, and then the tests that failed once more, one after another.

CI uses it: of a thousand tests that start servers, databases and browsers on two cores, one that fails by chance would
reject a good change. A test that fails at the second try, too, fails the run. So does a test program that ends without
a result, and a run with more than MOST failures. What passed only at the second try is listed at the end: it is a
defect of the test or of the program.
"""

import os
import re
import subprocess
import sys

MOST = 5

# What cargo writes before it runs a test program, and what the program writes at its end.
PROGRAM = re.compile(r"^\s+(Running .*\(.+\)|Doc-tests \S+)$")
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;")
NAME = re.compile(r"^    (\S.*)$")


class Run:
    """One `cargo test`, shown while it runs."""

    def __init__(self, arguments, environment):
        command = ["cargo", "test", *arguments]
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        running = subprocess.Popen(command, env=environment, **pipe)
        self.passed, self.failed, self.programs, self.results = 0, 0, 0, 0
        self.names, listed = [], None
        for line in running.stdout:
            print(line, end="", flush=True)
            line = line.rstrip("\n")
            if PROGRAM.match(line):
                self.programs += 1
            elif line == "failures:":
                # There are two such lists: with what each test wrote, and then the names alone.
                listed = []
            elif listed is not None and (name := NAME.match(line)):
                listed.append(name[1])
            elif result := RESULT.match(line):
                self.results += 1
                self.passed += int(result[1])
                self.failed += int(result[2])
                self.names += listed or []
                listed = None
        self.status = running.wait()

    def may_be_tried_again(self):
        """Whether each program ended with a result, and each failure has the name of a test."""
        return self.programs == self.results > 0 and 0 < self.failed == len(self.names) <= MOST


def main():
    arguments = sys.argv[1:]
    first = Run(arguments, os.environ)
    if first.status == 0 or not first.may_be_tried_again():
        return first.status
    print(f"\n{first.failed} failed; the second try, one after another", flush=True)
    alone = {**os.environ, "RUST_TEST_THREADS": "1"}
    second = Run([*arguments, "--", "--exact", *first.names], alone)
    if second.status == 0 and second.passed >= first.failed:
        print("\nThese tests passed only at the second try. Find out why:")
        for name in first.names:
            print(f"    {name}")
        return 0
    return second.status or 1


sys.exit(main())
