"""Files under `data/`: checked on reading, whole or absent on writing."""

import hashlib
import re
import subprocess

import pytest

from course_utils import _files


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"\x00\x01" * 500)
    (tmp_path / "card.json").write_text("{}\n")
    _files.write_checksums(tmp_path)
    return tmp_path


@pytest.fixture
def data(folder, monkeypatch):
    """The same folder, as if it were the course's `data/`."""
    monkeypatch.setattr(_files, "DATA", folder)
    return folder


def test_an_intact_file_is_returned(folder):
    assert _files.verified(folder / "weights.bin") == folder / "weights.bin"
    assert _files.verified(str(folder / "card.json")) == folder / "card.json"


@pytest.mark.parametrize("content", [b"", b"\x00\x01" * 499 + b"\x00\x02", b"\x00\x01" * 501])
def test_a_damaged_file_is_refused(data, content):
    (data / "weights.bin").write_bytes(content)
    with pytest.raises(
        OSError, match=r"^data/weights\.bin is damaged: .* git checkout -- data/weights\.bin$"
    ):
        _files.verified(data / "weights.bin")
    assert _files.verified(data / "card.json")  # the others are as good as before


def test_swapped_files_are_refused(data):
    content = (data / "card.json").read_bytes()
    (data / "card.json").write_bytes((data / "weights.bin").read_bytes())
    (data / "weights.bin").write_bytes(content)
    for name in ("card.json", "weights.bin"):
        with pytest.raises(OSError, match=f"^data/{name} is damaged"):
            _files.verified(data / name)


def test_a_missing_file_says_how_to_get_it_back(data):
    (data / "weights.bin").unlink()
    message = r"^data/weights\.bin is missing\. .* git checkout -- data/weights\.bin$"
    with pytest.raises(FileNotFoundError, match=message):
        _files.verified(data / "weights.bin")


def test_missing_checksums_are_what_the_message_is_about(data):
    (data / _files.CHECKSUMS).unlink()
    message = r"^data/SHA256SUMS is missing\. .* git checkout -- data/SHA256SUMS$"
    with pytest.raises(FileNotFoundError, match=message):
        _files.verified(data / "weights.bin")


def test_a_file_without_a_checksum_is_refused(data):
    (data / "new.bin").write_bytes(b"new")
    with pytest.raises(OSError, match=r"^data/new\.bin is damaged"):
        _files.verified(data / "new.bin")


def test_names_inside_folders_of_data(data):
    (data / "one-layer").mkdir()
    with pytest.raises(FileNotFoundError, match=r"git checkout -- data/one-layer/config\.json$"):
        _files.verified(data / "one-layer" / "config.json")


@pytest.mark.parametrize(
    ("installed", "remedy"),
    [
        (False, "Get it back, in the course's folder, with: git checkout -- data/card.json"),
        (True, "Install the course again, with pip's option --force-reinstall."),
    ],
)
def test_the_remedy_is_one_for_this_kind_of_installation(data, monkeypatch, installed, remedy):
    monkeypatch.setattr(_files, "INSTALLED", installed)
    (data / "card.json").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        _files.verified(data / "card.json")
    assert str(caught.value) == f"data/card.json is missing. {remedy}"


def test_outside_data_git_is_no_remedy(folder):
    (folder / "weights.bin").write_bytes(b"")
    with pytest.raises(OSError, match=re.escape(f"{folder / 'weights.bin'} is damaged")) as caught:
        _files.verified(folder / "weights.bin")
    assert "git checkout" not in str(caught.value) and "training command" in str(caught.value)


def test_checksums_are_what_sha256sum_writes(folder):
    (folder / ".hidden").write_text("left out")
    (folder / "subfolder").mkdir()
    _files.write_checksums(folder)
    expected = [
        f"{hashlib.sha256((folder / n).read_bytes()).hexdigest()}  {n}"
        for n in ("card.json", "weights.bin")
    ]
    assert (folder / _files.CHECKSUMS).read_text(encoding="utf-8").splitlines() == expected


def test_checksums_written_twice_are_the_same(folder):
    before = (folder / _files.CHECKSUMS).read_bytes()
    _files.write_checksums(folder)
    assert (folder / _files.CHECKSUMS).read_bytes() == before


def test_a_write_replaces_the_whole_file(tmp_path):
    target = tmp_path / "new" / "folder" / "file.txt"
    for text in ("a long first version", "short"):
        written = []

        def write(path, text=text, written=written):
            path.write_text(text)
            written.append(path.stat().st_ino)

        _files.write_atomically(target, write)
        assert target.read_text(encoding="utf-8") == text
        assert written == [target.stat().st_ino]  # moved there, not copied
    assert list(target.parent.iterdir()) == [target]
    assert target.stat().st_mode & 0o044 == 0o044  # others may read it


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError, ValueError])
def test_an_interrupted_write_leaves_the_old_file(folder, stop):
    def write(path):
        path.write_text("half of")
        assert (folder / "card.json").read_text(encoding="utf-8") == "{}\n"  # nobody sees the half
        raise stop

    with pytest.raises(stop):
        _files.write_atomically(folder / "card.json", write)
    assert _files.verified(folder / "card.json").read_text(encoding="utf-8") == "{}\n"
    assert sorted(f.name for f in folder.iterdir()) == [
        _files.CHECKSUMS,
        "card.json",
        "weights.bin",
    ]


def test_git_never_converts_a_file():
    """With Git for Windows' defaults, line ends would change, and with them every checksum."""
    root = _files.DATA.parent
    if not (root / ".git").exists():
        pytest.skip("this copy of the course is no git repository")
    command = ["git", "check-attr", "text", "data/tokenizer.json", "notebooks/solutions/01.ipynb"]
    lines = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(lines) == 2 and all(line.endswith("text: unset") for line in lines)
