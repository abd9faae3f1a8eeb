"""Container images: the recipe, the build, the push, and which image was built last. Nothing here knows of targets."""

from .names import ImageName
from .records import Built, last_built
from .registry import digest

__all__ = ["Built", "ImageName", "digest", "last_built"]
