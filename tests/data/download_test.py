# SPDX-License-Identifier: BSD-3-Clause
"""jobs/download-cifar10 against archives made here: full-size files, black images."""

import hashlib
import io
import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "download-cifar10"
FOLDER = "cifar-10-batches-bin"
NAMES = b"airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n"
BATCH = b"".join(bytes([label]) + bytes(3072) for label in range(10)) * 1000
FILES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


def write_archive(path, changed=()):
    """Write the archive, with the files of `changed` (name: bytes) in place of the right ones."""
    content = dict.fromkeys(FILES, BATCH) | {"batches.meta.txt": NAMES} | dict(changed)
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, data in content.items():
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


class DownloadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.archives = pathlib.Path(cls.temporary.name)
        cls.good = cls.archives / "good.tar.gz"
        write_archive(cls.good)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.dest = pathlib.Path(place.name) / "new" / "place"

    def run_script(self, archive, expected_md5, dest=None):
        environment = os.environ | {"CIFAR10_URL": f"file://{archive}", "CIFAR10_MD5": expected_md5}
        return subprocess.run(
            [SCRIPT, dest or self.dest], env=environment, capture_output=True, text=True
        )

    def assert_refused(self, result, *parts):
        self.assertEqual(result.returncode, 3, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertEqual(list(self.dest.iterdir()), [], "nothing is left behind")

    def test_unpacks_and_works_twice(self):
        for archive in (self.good, "/no/such/archive"):  # the second run needs none
            result = self.run_script(archive, md5(self.good))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(f"--data cifar10:{self.dest}", result.stdout)
            self.assertEqual([path.name for path in self.dest.iterdir()], [FOLDER])
            self.assertEqual((self.dest / FOLDER / "data_batch_5.bin").read_bytes(), BATCH)

    def test_wrong_md5_alone_says_how_to_go_on(self):
        result = self.run_script(self.good, "0" * 32)
        self.assert_refused(result, "sizes and labels are correct", f"CIFAR10_MD5={md5(self.good)}")

    def test_truncated_archive(self):
        short = self.archives / "short.tar.gz"
        short.write_bytes(self.good.read_bytes()[:-1000])
        self.assert_refused(self.run_script(short, md5(short)), "not a valid archive")

    def test_wrong_size(self):
        odd = self.archives / "odd.tar.gz"
        write_archive(odd, {"data_batch_1.bin": BATCH[:-1]})
        self.assert_refused(self.run_script(odd, md5(odd)), "data_batch_1.bin has 30729999 bytes")

    def test_wrong_labels(self):
        odd = self.archives / "labels.tar.gz"
        write_archive(odd, {"test_batch.bin": b"\1" + BATCH[1:]})
        self.assert_refused(self.run_script(odd, md5(odd)), "the test labels are not")

    def test_no_archive(self):
        self.assert_refused(self.run_script("/no/such/archive", "0" * 32), "cannot be downloaded")

    def test_leaves_an_incomplete_folder_alone(self):
        (self.dest / FOLDER).mkdir(parents=True)
        (self.dest / FOLDER / "data_batch_1.bin").write_bytes(b"mine")
        result = self.run_script(self.good, md5(self.good))
        self.assertEqual(result.returncode, 3)
        self.assertIn("4 bytes instead of 30730000", result.stderr)
        self.assertIn("remove or rename", result.stderr)
        self.assertEqual((self.dest / FOLDER / "data_batch_1.bin").read_bytes(), b"mine")

    def test_bomb_is_not_unpacked(self):
        bomb = self.archives / "bomb.tar.gz"
        write_archive(bomb, {"data_batch_1.bin": bytes(40_000_000), "other.bin": bytes(1000)})
        self.assert_refused(
            self.run_script(bomb, md5(bomb)), "not a valid archive", "data_batch_1.bin"
        )

    def test_links_in_an_archive_are_not_followed(self):
        links = self.archives / "links.tar.gz"
        with tarfile.open(links, "w:gz") as archive:
            for name in [*FILES, "batches.meta.txt"]:
                entry = tarfile.TarInfo(f"{FOLDER}/{name}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "/dev/zero"
                archive.addfile(entry)
        self.assert_refused(
            self.run_script(links, md5(links)), "data_batch_1.bin is not a regular file"
        )

    def test_huge_sparse_file_is_not_read(self):
        (self.dest / FOLDER).mkdir(parents=True)
        with (self.dest / FOLDER / "data_batch_1.bin").open("wb") as file:
            file.truncate(1 << 40)
        result = self.run_script(self.good, md5(self.good))
        self.assertEqual(result.returncode, 3)
        self.assertIn("1099511627776 bytes instead of 30730000", result.stderr)

    def test_wrong_use(self):
        for arguments in ([], ["--unknown"], ["a", "b"]):
            result = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2)
            self.assertIn("usage: jobs/download-cifar10 DEST", result.stderr)


if __name__ == "__main__":
    unittest.main()
