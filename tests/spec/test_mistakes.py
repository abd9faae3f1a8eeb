"""Each mistake that people make in a job file, and the whole message they get for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.errors import JobError
from muster.spec.load import load

pytestmark = pytest.mark.unit

Complaint = Callable[[str], str]
GOOD = "name: mnist\nframework: pytorch\nentry: train.py\n"
TIME_HELP = "    Write a number and ms, s, m, h or d, such as 90s, 10m or 1h30m; a plain number is seconds."
NAME = "expected 1 to 40 small letters, digits and hyphens, with a letter or digit at both ends"
INNER = "expected a path inside the code folder, neither absolute nor with '..'"
ENV_NAME = "expected the name of an environment variable: letters, digits and _, no digit in front"


def test_many_mistakes_are_told_at_once_in_the_order_of_their_lines(complaint: Complaint) -> None:
    text = """\
name: My Model
framwork: pytorch
entry: train.py
workers: three
timeout: 10 minutes
secrets: [wandb-key]
resources:
  memory: 32 gigs
"""
    told = f"""\
job.yaml:1: name: {NAME}, found 'My Model'
    Write `my-model`.
job.yaml:1: framework: missing
    Add it, such as `framework: pytorch`.
job.yaml:2: framwork: there is no such setting in a job
    Did you mean `framework`?
job.yaml:4: workers: expected a whole number of at least 0, or {{min: 1, max: 8}}, found the text 'three'
job.yaml:5: timeout: expected a duration above zero, found the text '10 minutes'
{TIME_HELP}
job.yaml:6: secrets[0]: {ENV_NAME}, found 'wandb-key'
    Write `wandb_key`.
job.yaml:8: resources.memory: expected a size above zero, found the text '32 gigs'
    Write a number and MB, GB, TB (powers of ten) or MiB, GiB, TiB (powers of two), such as 32GB or 1.5TiB."""
    assert complaint(text) == told


WHOLE_MESSAGES = {
    "an unknown setting": (
        "wrokers: 3",
        "job.yaml:4: wrokers: there is no such setting in a job\n    Did you mean `workers`?",
    ),
    "an unknown setting inside another": (
        "resources: {gpuz: 1}",
        "job.yaml:4: resources.gpuz: there is no such setting in resources\n    Did you mean `gpu`?",
    ),
    "a list that is a text": (
        "args: --epochs 3",
        "job.yaml:4: args: expected a list of texts, found the text '--epochs 3'\n"
        '    Write it as a list: ["--epochs", "3"].',
    ),
    "a variable without a value": (
        "env:\n  HF_TOKEN:",
        "job.yaml:5: env.HF_TOKEN: expected a text, found nothing\n"
        '    Write "" for an empty value, or take the name out. To pass on your own value, list it'
        " in secrets.",
    ),
    "a variable with an impossible name": (
        "env: {my-var: 1}",
        f"job.yaml:4: env.my-var: {ENV_NAME}\n    Write `my_var`.",
    ),
    "bounds the wrong way round": (
        "workers: {min: 8, max: 2}",
        "job.yaml:4: workers: min (8) is more than max (2)\n    Write {min: 2, max: 8}.",
    ),
    "fewer workers than none": (
        "workers: -1",
        "job.yaml:4: workers: expected a whole number of at least 0, found the number -1",
    ),
    "parameter servers where there are none": (
        "ps: 2",
        "job.yaml:4: ps: pytorch has no parameter servers\n    Take ps out.",
    ),
    "parameter servers without a count": (
        "ps: {env: {A: 1}}",
        "job.yaml:4: ps.count: missing\n    Add it, such as `count: 1`.",
    ),
    "no processes": (
        "processes: 0",
        "job.yaml:4: processes: expected a whole number of at least 1, found the number 0",
    ),
    "negative retries": (
        "retries: -1",
        "job.yaml:4: retries: expected a whole number of at least 0, found the number -1",
    ),
    "no time at all": (
        "timeout: 0",
        f"job.yaml:4: timeout: expected a duration above zero, found the number 0\n{TIME_HELP}",
    ),
    "an end before the beginning": (
        "timeout: 10m\nttl: 5m",
        "job.yaml:5: ttl: the run would end (5m) before it must be ready (timeout: 10m)\n"
        "    Raise ttl above 10m, or lower timeout.",
    ),
    "a secret that is also in the open": (
        "secrets: [KEY]\nenv:\n  KEY: abc",
        "job.yaml:4: secrets[0]: KEY is given both here and in env, on lines 4 and 6\n"
        "    Take it out of env, where its value can be read by all, or out of secrets.",
    ),
    "a secret that is also in a role's environment": (
        "secrets: [KEY]\nmain: {env: {KEY: abc}}",
        "job.yaml:4: secrets[0]: KEY is given both here and in main.env, on lines 4 and 5\n"
        "    Take it out of main.env, where its value can be read by all, or out of secrets.",
    ),
    "outputs outside the code": (
        "outputs: ../out",
        f"job.yaml:4: outputs: {INNER}, found '../out'\n    Write `out`.",
    ),
    "absolute checkpoints": (
        "checkpoints: /mnt/ckpt/",
        f"job.yaml:4: checkpoints: {INNER}, found '/mnt/ckpt/'\n    Write `ckpt`.",
    ),
    "one folder for two things": (
        "outputs: ./checkpoints/",
        "job.yaml:1: checkpoints: outputs and checkpoints are the same folder, './checkpoints/'\n"
        "    Give each a folder of its own, such as outputs and checkpoints.",
    ),
    "memory without a unit": (
        "resources: {memory: 32}",
        "job.yaml:4: resources.memory: 32 bytes is less than any machine has\n"
        "    A plain number is bytes. For gigabytes write 32GB.",
    ),
    "an unknown option": (
        "options: {prot: 29400}",
        "job.yaml:4: options.prot: there is no such setting among the options of pytorch\n    Did you mean `port`?",
    ),
    "an option of the wrong kind in a role": (
        "main: {options: {backend: ncc}}",
        "job.yaml:4: main.options.backend: expected gloo or nccl, found the text 'ncc'\n    Did you mean `nccl`?",
    ),
    "a worker that does not compute": (
        "worker: {computes: false}",
        "job.yaml:4: worker.computes: a worker always computes\n"
        "    Take it out. Only `main: {computes: false}` has a meaning.",
    ),
    "code from a store that is not known": (
        "code: gcs://bucket/code.zip",
        "job.yaml:4: code: expected a path or file://, s3://, oci://, gs://, az://, https://host/code.zip,"
        " git+https://host/name.git#commit, image:/path, found 'gcs://bucket/code.zip'\n"
        "    Did you mean `gs://`?",
    ),
    "code from a web page": (
        "code: https://github.com/team/name",
        "job.yaml:4: code: expected a path or file://, s3://, oci://, gs://, az://, https://host/code.zip,"
        " git+https://host/name.git#commit, image:/path, found 'https://github.com/team/name'\n"
        "    Write git+https://host/name.git#commit for git, https://host/code.zip for an archive,"
        " or image:/path for code that lies in the image.",
    ),
    "a work dir that lacks a slash": (
        "work_dir: s3:/bucket/runs",
        "job.yaml:4: work_dir: expected a path or file://, s3://, oci://, gs://, az://, found"
        " 's3:/bucket/runs'\n"
        "    Write s3://bucket/folder, with two slashes and the bucket's name.",
    ),
    "an input from nowhere": (
        "inputs: {data: s4://bucket}",
        "job.yaml:4: inputs.data: expected a path or file://, s3://, oci://, gs://, az://, https://,"
        " found 's4://bucket'\n    Did you mean `s3://`?",
    ),
    "an input that is no folder's name": (
        "inputs: {../data: s3://bucket/set}",
        "job.yaml:4: inputs.../data: expected the name of a folder: letters, digits, '.', '_' and '-'",
    ),
    "requirements that are not there": (
        "requirements: requirement.txt",
        "job.yaml:4: requirements: there is no file PROJECT/requirement.txt\n"
        "    Did you mean `PROJECT/requirements.txt`?",
    ),
    "a code folder that is not there": (
        "code: modles",
        "job.yaml:4: code: there is no folder or file PROJECT/modles\n    Did you mean `PROJECT/models`?",
    ),
    "a Python that is not there": (
        "python: .venv/bin/python",
        "job.yaml:4: python: there is no file PROJECT/.venv/bin/python\n"
        "    Paths are taken from the folder of the job file.",
    ),
    "a Python that is no program": (
        "python: ./train.py",
        "job.yaml:4: python: PROJECT/train.py cannot be executed\n    Name an interpreter, such as .venv/bin/python.",
    ),
}


@pytest.mark.parametrize(("line", "message"), WHOLE_MESSAGES.values(), ids=WHOLE_MESSAGES)
def test_the_whole_message_of(line: str, message: str, complaint: Complaint) -> None:
    assert complaint(f"{GOOD}{line}\n") == message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("trian.py", "there is no 'trian.py' in PROJECT\n    Did you mean `train.py`?"),
        ("resnet.py", "there is no 'resnet.py' in PROJECT\n    Did you mean `models/resnet.py`?"),
        ("zebra.sh", "there is no 'zebra.sh' in PROJECT\n    Name a file inside code."),
        ("models", "'models' is a folder in PROJECT\n    Name the script in it."),
        ("../train.py", "'../train.py' leads out of the code folder\n    Name a file inside code."),
        ("/etc/passwd", "'/etc/passwd' leads out of the code folder\n    Name a file inside code."),
        ("~/train.py", "'~/train.py' leads out of the code folder\n    Name a file inside code."),
    ],
)
def test_an_entry_must_be_a_file_inside_the_code(entry: str, message: str, complaint: Complaint) -> None:
    assert complaint(f"name: a\nframework: dask\nentry: {entry}\n") == f"job.yaml:3: entry: {message}"


def test_an_absolute_entry_inside_the_code_is_told_as_it_should_be(complaint: Complaint, project: Path) -> None:
    assert complaint(f"name: a\nframework: dask\nentry: {project}/models/resnet.py\n") == (
        "job.yaml:3: entry: 'PROJECT/models/resnet.py' leads out of the code folder\n"
        "    Write `entry: models/resnet.py`."
    )


def test_an_entry_beside_the_one_file_of_the_code_is_not_there(complaint: Complaint) -> None:
    assert complaint("name: a\nframework: dask\ncode: train.py\nentry: eval.py\n") == (
        "job.yaml:4: entry: code is the one file train.py, and 'eval.py' is not in it\n"
        "    Write `entry: train.py`, or name the folder in code."
    )


def test_an_ephemeral_job_needs_an_entry(complaint: Complaint) -> None:
    assert complaint("# a comment\nname: a\nframework: dask\n") == (
        "job.yaml:2: entry: missing: an ephemeral cluster ends with its script, and there is none\n"
        "    Add `entry: train.py`, or `ephemeral: false` for a cluster that stays until ttl or stop."
    )


def test_an_unknown_framework_names_its_neighbour_and_the_way_to_more(complaint: Complaint) -> None:
    assert complaint("name: a\nframework: pytroch\nentry: train.py\n") == (
        "job.yaml:2: framework: there is no framework 'pytroch'\n"
        "    Did you mean `pytorch`? Others come as plugins: pip install one into the Python that"
        " runs muster."
    )


def test_a_framework_that_is_not_elastic_takes_a_fixed_number(complaint: Complaint) -> None:
    text = "name: a\nframework: tensorflow\nentry: train.py\nworkers: {min: 1, max: 4}\n"
    assert complaint(text) == (
        "job.yaml:4: workers: tensorflow is not elastic: it cannot run with a changing number of workers\n"
        "    Write a fixed number, such as `workers: 4`."
    )


def test_a_short_ttl_alone_is_no_mistake(project: Path) -> None:
    (project / "job.yaml").write_text(GOOD + "ttl: 20s\n")
    assert load("job.yaml").ttl == 20.0


def test_one_mistake_is_not_told_twice(complaint: Complaint) -> None:
    text = "name: a\nframework: dask\nentry: [train.py]\ntimeout: soon\nttl: 1m\nworkers: {min: a, max: 3}\n"
    assert [line.split(": ")[1] for line in complaint(text).splitlines() if line.startswith("job.yaml")] == [
        "entry",
        "timeout",
        "workers.min",
    ]


def test_an_oracle_ads_file_is_recognised(complaint: Complaint) -> None:
    assert complaint("kind: Distributed\napiVersion: v1.0\nspec: {}\n") == (
        "job.yaml:3: spec.cluster: missing\n"
        "    Add it, such as `cluster: {kind: dask, spec: {workDir: oci://bucket@namespace/runs}}`.\n"
        "job.yaml:3: spec.runtime: missing: a cluster ends with its script, and there is none\n"
        "    Add `runtime: {kind: python, spec: {entryPoint: train.py}}`, or `ephemeral: false` to the cluster."
    )


def test_an_empty_file_says_what_the_smallest_job_is(complaint: Complaint) -> None:
    assert complaint("# nothing yet\n") == (
        "job.yaml:1: the file is empty\n"
        "    The smallest job is `name: mnist`, `framework: pytorch`, `entry: train.py`, one line each."
    )


def test_a_file_that_is_a_list_is_no_job(complaint: Complaint) -> None:
    assert complaint("- name: a\n") == "job.yaml:1: expected a mapping, found a list"


def read_error(path: str | Path) -> str:
    with pytest.raises(JobError) as caught:
        load(path)
    return str(caught.value)


def test_a_file_that_is_not_there_names_its_neighbour(project: Path) -> None:
    assert (
        read_error("job.yaml") == "job.yaml: there is no such file\n    `muster init` writes a job file to start from."
    )
    (project / "jobs.yml").touch()
    assert read_error("job.yaml") == "job.yaml: there is no such file\n    Did you mean `jobs.yml`?"


def test_a_folder_is_no_job_file(project: Path) -> None:
    (project / "models" / "resnet.yaml").touch()
    assert read_error("models") == ("models: this is a folder, not a job file\n    Job files here may be: resnet.yaml.")


def test_a_file_in_another_encoding_names_the_line(project: Path) -> None:
    (project / "job.yaml").write_bytes(b"name: a\nframework: \xff\n")
    assert read_error("job.yaml") == "job.yaml:2: not UTF-8 text\n    Save the file as UTF-8."


@pytest.fixture
def nobody(project: Path) -> Iterator[None]:
    """Root may read everything, so that as root the test is somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    for folder in (project, *project.parents):
        if folder.stat().st_uid == 0 and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o055)
    project.chmod(0o777)
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def locked(project: Path) -> Iterator[Path]:
    folder = project / "models"
    folder.chmod(0)
    yield folder
    folder.chmod(0o755)


@pytest.mark.usefixtures("locked", "nobody")
def test_code_that_cannot_be_read_names_the_command_that_mends_it(complaint: Complaint) -> None:
    assert complaint("name: a\nframework: dask\nentry: x.py\ncode: models\n") == (
        "job.yaml:4: code: the folder PROJECT/models cannot be read by this user\n"
        "    Run `chmod -R u+rX 'PROJECT/models'`."
    )
