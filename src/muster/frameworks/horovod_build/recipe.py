"""Which Horovod is built, and what is changed in its source. Only text goes in and out here."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import MusterError

VERSION = "0.28.1"
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
"""Of the source package, whoever it came from."""

REVISION = 1
"""Goes up with every change below, so that no cached wheel of an older recipe is taken."""

TOOLS = ("setuptools==69.5.1", "wheel==0.45.1", "packaging")
"""What its setup.py needs beside a framework; newer setuptools refuse it."""

MODULES = {"pytorch": "torch", "tensorflow": "tensorflow"}
"""What it can be built for, each with the package that must be there."""

TITLES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow"}

_KERAS_3 = """\
    if not (hasattr(optimizer, '_compute_gradients') or hasattr(optimizer, 'compute_gradients')):
        raise TypeError('Horovod cannot average the gradients of Keras 3: every process would train by itself. '
                        'Install tf_keras, and set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported.')

"""


@dataclass(frozen=True)
class Change:
    """A text that stands once in a file of the source, and what takes its place."""

    file: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        if text.count(self.old) != 1:
            raise MusterError(
                f"Horovod's {self.file} has {self.old!r} {text.count(self.old)} times, not once",
                f"This is not the source of Horovod {VERSION} that Muster knows how to build.",
            )
        return text.replace(self.old, self.new)


CHANGES = (
    # PyTorch's headers are C++20 by now, TensorFlow's C++17; gloo is linked to both.
    Change("CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 17)"),
    Change("horovod/torch/CMakeLists.txt", "set(CMAKE_CXX_STANDARD 14)", "set(CMAKE_CXX_STANDARD 20)"),
    Change("third_party/gloo/CMakeLists.txt", "-std=c++11 -fPIC", "-std=c++17 -fPIC"),
    # Since GCC 13 no other header brings these two along.
    Change("CMakeLists.txt", "-ftree-vectorize", "-ftree-vectorize -include cstdint -include string"),
    # The operations for XLA, off unless asked for, need headers that TensorFlow no longer ships in their place.
    Change(
        "horovod/tensorflow/CMakeLists.txt",
        'list(APPEND TF_SOURCES "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc")\n',
        "",
    ),
    # Python 3.12 has no distutils.
    Change(
        "horovod/torch/CMakeLists.txt",
        "from distutils.sysconfig import get_python_inc; print(get_python_inc())",
        "import sysconfig; print(sysconfig.get_path('include'))",
    ),
    Change(
        "horovod/runner/js_run.py",
        "from distutils.spawn import find_executable",
        "from shutil import which as find_executable",
    ),
    # `keras` may be Keras 3 where TensorFlow was told to use the one before.
    Change(
        "horovod/tensorflow/keras/__init__.py",
        "    from keras import backend as K",
        "    from tensorflow.keras import backend as K",
    ),
    Change(
        "horovod/tensorflow/keras/callbacks.py",
        "    from keras import backend as K",
        "    from tensorflow.keras import backend as K",
    ),
    # With Keras 3 its optimizer trains on, but averages nothing, and does not say so.
    Change(
        "horovod/_keras/__init__.py",
        "    class _DistributedOptimizer(*optimizer.__class__.__bases__):\n",
        _KERAS_3 + "    class _DistributedOptimizer(*optimizer.__class__.__bases__):\n",
    ),
    # Without debugging symbols: a twentieth of the size.
    Change("setup.py", "else 'RelWithDebInfo'", "else 'Release'"),
    # What it needs at run time is installed with the wheel, and not fetched to build it.
    Change("setup.py", "setup_requires=require_list if is_build_action() else [],", "setup_requires=[],"),
)


def changed_files() -> tuple[str, ...]:
    return tuple(dict.fromkeys(change.file for change in CHANGES))


def changed(file: str, text: str) -> str:
    """A file of the source as it is built."""
    for change in CHANGES:
        if change.file == file:
            text = change.apply(text)
    return text
