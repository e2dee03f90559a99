# SPDX-License-Identifier: BSD-3-Clause
"""Runs one draw: starts the training, causes the fault, waits for the end of the job, and checks
what is left."""

import os
import shlex
import shutil
import threading
import time
import uuid
from dataclasses import dataclass, replace

import checks
from hosts import Hosts
from job import Job
from kinds import Outcome

STEPS = 6
CHECKPOINT_EVERY = 2
KEEP = 2
# seconds after the limit for which a job may still run before it is killed; its time is reported
LATE = 20
ATTEMPTS = 30  # to make the fault before the job is over
KEPT_FOLDERS = 20  # folders of failed runs that keep their checkpoints


@dataclass
class Reference:
    """Results of an uninterrupted run. `digests`: {step: digest of its checkpoint}. `start`,
    `training`: seconds until the run file exists, and from there to the end."""

    digests: dict
    steps: dict
    epochs: dict
    start: float
    training: float


class Runner:
    """Runs draws in folders below `work`; thread-safe."""

    def __init__(self, program, with_faults, mpirun, work):
        self.program, self.with_faults = program, with_faults
        self.mpirun, self.work = mpirun, work
        self.references, self.lock = {}, threading.Lock()
        self.jobs, self.clusters, self.local = set(), [], threading.local()
        self.stopped = False
        self.kept = 0
        # Runs that are not counted, because the rank was stopped after the others had ended.
        self.finalised = 0

    def close(self):
        """Ends all jobs and removes the emulated hosts."""
        self.stopped = True
        for job in list(self.jobs):
            job.kill()
        for hosts in self.clusters:
            hosts.down()

    def hosts(self):
        """Returns the emulated hosts of this thread."""
        if not hasattr(self.local, "hosts"):
            with self.lock:
                name = f"campaign-{os.getpid()}-{len(self.clusters)}"
                self.local.hosts = Hosts(name)
                self.clusters.append(self.local.hosts)
        return self.local.hosts

    def training(self, folder, every=CHECKPOINT_EVERY, keep=KEEP, has_fault=False):
        """Returns the command of a training of about a second per rank, without its launcher.
        `has_fault`: by the program that has the option --inject."""
        program = self.with_faults if has_fault else self.program
        return [
            program,
            "train",
            "--data=synthetic:24@3x8x8",
            "--batch-per-rank=2",
            f"--steps={STEPS}",
            "--lr=0.001",
            "--threads=1",
            "--loader-threads=1",
            "--deterministic",
            f"--checkpoint-dir={folder}/checkpoints",
            f"--checkpoint-every={every}-steps",
            f"--keep={keep}",
            "--resume=auto",
            f"--output={folder}/run.h5",
        ]

    def start(self, folder, ranks, hosts, watchdog, training):
        """Starts a job; returns it."""
        if hosts == 1:
            command = [*self.mpirun, "-n", ranks, *training, "--all-reduce=shared-memory"]
        else:
            # Hierarchical needs two ranks on each host.
            algorithm = "hierarchical" if ranks == 4 else "direct"
            command = self.hosts().command(ranks, [*training, f"--all-reduce={algorithm}"])
        job = Job(command, folder, uuid.uuid4().hex, watchdog)
        (folder / "command").write_text(
            f"LOCKSTEP_WATCHDOG={watchdog} {shlex.join(map(str, command))}\n"
        )
        self.jobs.add(job)
        return job

    def finish(self, job):
        job.kill()
        self.jobs.discard(job)

    def reference(self, ranks, hosts):
        """Returns the results of the uninterrupted run, which is made once for each number of ranks
        and hosts."""
        with self.lock:
            event = self.references.setdefault((ranks, hosts), threading.Lock())
        with event:
            key = (ranks, hosts, "reference")
            if key not in self.references:
                self.references[key] = self.make_reference(ranks, hosts)
            return self.references[key]

    def make_reference(self, ranks, hosts):
        folder = self.work / f"reference-{ranks}-{hosts}"
        job = self.start(folder, ranks, hosts, 300, self.training(folder, every=1, keep=STEPS))
        try:
            job.wait_for(job.ranks)
            begin = time.monotonic()
            job.wait_for(lambda: checks.run_files(folder))
            training = time.monotonic()
            job.wait_until_over(begin, 300)
            end = time.monotonic()
            if job.process.poll() != 0 and not self.stopped:
                raise SystemExit(
                    "campaign: the uninterrupted run failed with status"
                    f" {job.process.poll()}:\n{job.stderr()}"
                )
            steps, epochs = checks.joined_values(folder)
            digests = {
                step: checks.digest(folder / "checkpoints" / f"checkpoint-{step}.h5")
                for step in range(1, STEPS + 1)
            }
        finally:
            self.finish(job)
        shutil.rmtree(folder)
        return Reference(digests, steps, epochs, training - begin, (end - training) / 2)

    def run(self, kind, draw):
        """Runs a draw until the fault has hit the job, at most ATTEMPTS times; returns its outcome,
        or None if the campaign was stopped."""
        reference = self.reference(draw.ranks, draw.hosts)
        for _ in range(ATTEMPTS):
            if self.stopped:
                return None
            run = Run(self, kind, draw, reference)
            outcome = run.execute()
            if outcome or not self.stopped:
                self.tidy(run, outcome)
            if outcome:
                return outcome
            # The job was over before the fault: it is faster than the uninterrupted run was.
            reference = replace(
                reference, start=0.9 * reference.start, training=0.9 * reference.training
            )
        outcome = Outcome(draw)
        outcome.check(
            "fault before the end", False, f"the job was over before the fault in {ATTEMPTS} runs"
        )
        return outcome

    def tidy(self, run, outcome):
        """Removes the folder of a run; keeps it if a check failed, but the checkpoints only of the
        first failures."""
        if not outcome or not outcome.has_failed:
            shutil.rmtree(run.folder, ignore_errors=True)
            return
        lines = [f"{name}: {text}" for name, text in outcome.failures.items()]
        (run.folder / "failures").write_text("\n".join([outcome.draw.text(), *lines, ""]))
        self.kept += 1
        if self.kept > KEPT_FOLDERS:
            shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)


class Run:
    """One job with one fault, and the job that resumes it."""

    def __init__(self, runner, kind, draw, reference):
        self.runner, self.reference = runner, reference
        self.kind, self.draw = kind, draw
        self.folder = runner.work / f"{draw.kind}-{draw.index:05d}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.checkpoints = self.folder / "checkpoints"
        self.acknowledged = []

    def execute(self):
        draw, kind = self.draw, self.kind
        training = [
            *self.runner.training(self.folder, has_fault=bool(draw.fault)),
            *kind.options(draw),
        ]
        job = self.runner.start(self.folder, draw.ranks, draw.hosts, kind.watchdog, training)
        outcome = Outcome(draw, tolerated=kind.tolerated)
        hosts = self.runner.hosts() if draw.hosts > 1 else None
        try:
            if not self.wait_for_moment(job):
                return self.false_alarm(job, outcome)
            outcome.phase = self.phase()
            self.acknowledged = checks.steps_of(self.checkpoints)
            begin = time.monotonic()
            if not kind.strike(draw, job, hosts):
                return None
            ranks, outcome.seconds = job.wait_until_over(begin, kind.limit_of(draw))
            late = "" if outcome.seconds else self.describe_late(job, begin)
            outcome.status = job.process.poll()
            in_time = outcome.seconds is not None and outcome.seconds <= kind.limit_of(draw)
            late = late or ("" if in_time else f"over after {outcome.seconds:.2f} s")
            if self.runner.stopped or self.was_over_before(job, outcome, late):
                return None
            outcome.check("ranks over", ranks is not None and ranks <= kind.limit_of(draw), late)
            outcome.check("launcher over", in_time, late)
        finally:
            self.runner.finish(job)
            if kind.name == "network":
                hosts.up()
        if outcome.seconds is not None:  # otherwise the campaign has killed it
            self.check_leftovers(job, outcome)
            kind.add_checks(draw, job, outcome, self)
        self.check_files(outcome)
        if kind.resume_every and draw.index % kind.resume_every == 0 and not self.runner.stopped:
            self.resume(outcome)
        return None if self.runner.stopped else outcome

    def describe_late(self, job, begin):
        """Waits longer for a job that is not over in time; returns a text about it."""
        limit = self.kind.limit_of(self.draw) + LATE
        ranks, seconds = job.wait_until_over(begin, limit)
        ends = [
            f"{name} {f'over after {s:.1f} s' if s else f'not over after {limit} s'}"
            for name, s in (("ranks", ranks), ("launcher", seconds))
        ]
        return f"{', '.join(ends)}; processes {job.processes()}"

    def was_over_before(self, job, outcome, late):
        """Returns whether the fault came too late to matter: the job has ended successfully, or all
        ranks but the victim have, which is then stopped in the last part of MPI_Finalize, where no
        other rank waits for it.
        """
        if not self.is_complete():
            return False
        if late:
            rest = {rank for rank in job.processes().values() if rank is not None}
            self.runner.finalised += rest == {self.draw.victim}
            return rest == {self.draw.victim} and "watchdog" not in job.stderr()
        return outcome.status == 0 and self.kind.name != "slow"

    def is_complete(self):
        """Returns whether the training has written all its results."""
        return (
            bool(checks.run_files(self.folder))
            and not checks.partial(self.folder)
            and self.final_is_equal()
        )

    def false_alarm(self, job, outcome):
        """Returns an outcome if the job has failed without a fault, None if it was over."""
        status = job.process.wait(60)
        if status == 0 or self.runner.stopped:
            return None
        outcome.phase, outcome.status = self.phase(), status
        outcome.check(
            "no failure before the fault", False, f"status {status}: {job.stderr().strip()[-400:]}"
        )
        return outcome

    def wait_for_moment(self, job):
        """Waits until the moment of the fault; returns False if the job has ended before."""
        found = self.kind.wait_for_moment(self.draw, job)
        if found is not None:
            return found
        if not job.wait_for(lambda: self.draw.victim in job.ranks()):
            return False
        seconds = self.reference.start if self.draw.early else self.reference.training
        if not self.draw.early and not job.wait_for(
            lambda: checks.run_files(self.folder), interval=0.005
        ):
            return False
        time.sleep(self.draw.position * seconds)
        return job.process.poll() is None

    def phase(self):
        """Returns the phase of the job as far as it can be seen from its files."""
        if checks.temporary_files(self.checkpoints):
            return "saving"
        if not checks.run_files(self.folder):
            return "start"
        return "training" if checks.partial(self.folder) else "end"

    def check_leftovers(self, job, outcome):
        of_mpi, other = job.leftovers()
        outcome.check("nothing of MPI left", not of_mpi, ", ".join(map(str, of_mpi)))
        outcome.check("nothing left", not other, ", ".join(map(str, other)))
        for path in of_mpi:
            path.unlink(missing_ok=True)

    def check_files(self, outcome):
        """Checks the run file and that no checkpoint is damaged or older than an acknowledged
        one."""
        found = [
            line
            for path in checks.run_files(self.folder)
            for line in checks.problems_of_run_file(path)
        ]
        outcome.check("run file", not found, "; ".join(found))
        present = checks.steps_of(self.checkpoints)
        damaged = []
        for step in present:
            try:
                if (
                    checks.digest(self.checkpoints / f"checkpoint-{step}.h5")
                    != self.reference.digests[step]
                ):
                    damaged.append(f"checkpoint-{step}.h5 has other values")
            except (OSError, KeyError, RuntimeError) as error:
                damaged.append(f"checkpoint-{step}.h5: {error}")
        outcome.check("checkpoints valid", not damaged, "; ".join(damaged))
        lost = [
            step
            for step in self.acknowledged
            if step not in present and sum(p > step for p in present) < KEEP
        ]
        outcome.check("checkpoints kept", not lost, f"lost: {lost}; present: {present}")

    def resume(self, outcome):
        """Runs the same command to the end and compares its results with those of the uninterrupted
        run."""
        newest = max(checks.steps_of(self.checkpoints), default=0)
        before = len(checks.run_files(self.folder))
        job = self.runner.start(
            self.folder, self.draw.ranks, self.draw.hosts, 300, self.runner.training(self.folder)
        )
        try:
            job.wait_until_over(time.monotonic(), 300)
            status = job.process.poll()
        finally:
            self.runner.finish(job)
        if self.runner.stopped:
            return
        outcome.check("resumed", status == 0, f"status {status}: {job.stderr().strip()[-400:]}")
        if status != 0:
            return
        files = checks.run_files(self.folder)
        if len(files) > before:
            first = checks.values_of(files[-1])[0]
            outcome.check(
                "resumed from the newest", first == newest, f"step {first} instead of {newest}"
            )
        outcome.check("resumed equal", self.final_is_equal(), "the final checkpoint differs")
        temporary = checks.temporary_files(self.checkpoints)
        outcome.check("resumed clean", not temporary, ", ".join(temporary))
        if self.draw.kind == "resumes":
            outcome.check("joined run file equal", *self.compare_values())

    def final_is_equal(self):
        path = self.checkpoints / f"checkpoint-{STEPS}.h5"
        return path.exists() and checks.digest(path) == self.reference.digests[STEPS]

    def compare_values(self):
        """Returns whether the joined parts of the run file have the values of the uninterrupted
        run, and what differs."""
        steps, epochs = checks.joined_values(self.folder)
        differing = [f"step {s}" for s in range(STEPS) if steps.get(s) != self.reference.steps[s]]
        differing += [
            f"epoch {e}" for e, row in self.reference.epochs.items() if epochs.get(e) != row
        ]
        return not differing, ", ".join(differing)
