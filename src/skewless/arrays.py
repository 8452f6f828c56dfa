"""The array types of the vocabulary, so that signatures read the same everywhere; views of them."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

#: Key hashes, one per record.
Keys: TypeAlias = NDArray[np.uint64]
#: Workers 0 … n − 1, one per record.
Workers: TypeAlias = NDArray[np.int32]
Ints: TypeAlias = NDArray[np.int64]
SmallInts: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]
Words: TypeAlias = NDArray[np.uint64]
Bytes: TypeAlias = NDArray[np.uint8]
#: Rows with named fields: `rows[i]["field"]`.
Rows: TypeAlias = NDArray[np.void]

# Scalars inside kernels. They tell the reader what is meant; the compiler infers it, and numpy's
# scalar types would make every line of integer arithmetic a cast for the type checker's sake.
U64: TypeAlias = Any
I64: TypeAlias = Any
I32: TypeAlias = Any
F64: TypeAlias = Any


_Array = TypeVar("_Array", bound=NDArray[Any])


def read_only(array: _Array) -> _Array:
    """Return a view that cannot be written.

    The compiler has a separate type for arrays that cannot be written, such as Arrow's, and
    compiles a kernel once per type. Strategies pass all keys and weights to their kernels in this
    way, so that each kernel is compiled once.
    """
    view: _Array = array.view()
    view.flags.writeable = False
    return view
