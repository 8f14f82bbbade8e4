"""Converts NumPy's arrays to tensors and back: dlpack.py SHIM, which is compiled from dlpack_shim.c."""

import ctypes
import gc
import sys
import weakref

import numpy as np

shim = ctypes.CDLL(sys.argv[1])
shim.shim_run.restype = ctypes.c_char_p
shim.shim_run.argtypes = [ctypes.c_char_p] + [ctypes.c_void_p] * 4

api = ctypes.pythonapi
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

NAMES = {False: b"dltensor", True: b"dltensor_versioned"}
USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}


class Exported:
    """An object for np.from_dlpack, which has the capsule of a tensor on the CPU."""

    def __init__(self, pointer, versioned):
        self.pointer, self.versioned = pointer, versioned

    def __dlpack__(self, **options):
        return api.PyCapsule_New(self.pointer, NAMES[self.versioned], None)

    def __dlpack_device__(self):
        return (1, 0)


def run(text, array=None, versioned=False, result=True):
    """Runs a Lua chunk on a tensor that shares an array's memory. Returns the result as an array."""
    given = [None, None]
    if array is not None:
        options = {"max_version": (1, 0)} if versioned else {}
        capsule = array.__dlpack__(**options)
        given[versioned] = api.PyCapsule_GetPointer(capsule, NAMES[versioned])
    out = ctypes.c_void_p()
    places = [None, None]
    if result:
        places[versioned] = ctypes.addressof(out)
    failure = shim.shim_run(text.encode(), given[0], given[1], places[0], places[1])
    if array is not None and (failure is None or b"from_dlpack" not in failure):
        api.PyCapsule_SetName(capsule, USED[versioned])
    if failure is not None:
        raise ValueError(failure.decode())
    return np.from_dlpack(Exported(out.value, versioned)) if result else None


DTYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8"]
forms = [False]
version = tuple(int(part) for part in np.__version__.split(".")[:2])
if version >= (1, 25):
    DTYPES.append("bool")
if version >= (2, 0):
    forms.append(True)  # NumPy 2 has versioned capsules

for versioned in forms:
    for dtype in DTYPES:
        a = (np.arange(24).reshape(2, 3, 4) % 5).astype(dtype)
        for view in [a, a.T, a[:, 1:, ::2], a[1], a[..., None], a[:0]]:
            back = run("return (...)", view, versioned)
            assert back.dtype == view.dtype and back.shape == view.shape, (dtype, back.shape)
            assert np.array_equal(back, view), dtype
            if view.size > 1:
                assert np.shares_memory(back, view), dtype

    # both libraries write to the same memory
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    run("local t = ...; t:mul_(10)", a, versioned, result=False)
    assert np.array_equal(a, [[0, 10, 20], [30, 40, 50]])
    b = run("x = torch.zeros(3, 2); return x:t()", None, versioned)
    assert b.shape == (2, 3) and b.strides == (4, 8), b.strides
    run("x:add_(torch.tensor {{1, 2}, {3, 4}, {5, 6}})", result=False)
    assert np.array_equal(b, [[1, 3, 5], [2, 4, 6]])

    # the memory stays alive until both libraries have released it
    a = np.arange(1000, dtype=np.float64)
    gone = weakref.ref(a)
    run("kept = (...)", a, versioned, result=False)
    del a
    gc.collect()
    assert gone() is not None
    assert run("return kept:sum()") == 499500
    run("kept = nil; collectgarbage()", result=False)
    gc.collect()
    assert gone() is None
    b = run("return torch.ones(100000)", None, versioned)
    run("collectgarbage()", result=False)
    assert b.sum() == 100000

    for dtype in (np.uint16, np.uint32, np.uint64):
        a = np.array([1, 2, np.iinfo(dtype).max], dtype)
        assert np.array_equal(run("return (...)", a, versioned), a)

    # arrays with negative strides are refused
    for array, message in [
        (np.arange(4.0)[::-1], "from_dlpack: strides [-1] for sizes [4]"),
    ]:
        try:
            run("return (...)", array, versioned)
        except ValueError as error:
            assert message in str(error), error
        else:
            raise AssertionError(message)

if True in forms:
    constant = np.arange(4.0)
    constant.setflags(write=False)
    try:
        run("return (...)", constant, True)
    except ValueError as error:
        assert "the memory is read-only" in str(error), error
    else:
        raise AssertionError("read-only memory was taken")
print("passed")
