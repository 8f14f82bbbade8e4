-- types_dtypes.lua - annotations of dtypes, constants, shapes and the defaults for new tensors, in
-- the form that types.lua describes.

--- The dtype of 32-bit floating point. A dtype is its name: torch.float32 == "float32" == x.dtype.
---@type string
torch.float32 = "float32"
---The dtype of 64-bit floating point.
---@type string
torch.float64 = "float64"
---The dtype of 16-bit floating point.
---@type string
torch.float16 = "float16"
---The dtype of 16-bit floating point with the exponent of float32.
---@type string
torch.bfloat16 = "bfloat16"
---The dtype of 8-bit signed integers.
---@type string
torch.int8 = "int8"
---The dtype of 16-bit signed integers.
---@type string
torch.int16 = "int16"
---The dtype of 32-bit signed integers.
---@type string
torch.int32 = "int32"
---The dtype of 64-bit signed integers.
---@type string
torch.int64 = "int64"
---The dtype of 8-bit unsigned integers.
---@type string
torch.uint8 = "uint8"
---The dtype of booleans, a byte each.
---@type string
torch.bool = "bool"
--- The dtype of 16-bit unsigned integers. As in PyTorch, few operators take it: conversions, views,
--- moves, comparisons for equality, products, sums, sorting and functions with a floating result.
---@type string
torch.uint16 = "uint16"
--- The dtype of 32-bit unsigned integers; see torch.uint16.
---@type string
torch.uint32 = "uint32"
--- The dtype of 64-bit unsigned integers; see torch.uint16. Lua integers are smaller than 2^63, so
--- larger elements become floats in Lua.
---@type string
torch.uint64 = "uint64"
--- The dtype of 8-bit floating numbers with four bits of exponent, from -448 to 448. A conversion
--- gives the nearest number of this dtype, and 448 for numbers above 448. As in PyTorch, few
--- operators take float8: conversions, views, moves, comparisons for equality, and products of two
--- such tensors.
---@type string
torch.float8_e4m3fn = "float8_e4m3fn"
--- The dtype of 8-bit floating numbers with five bits of exponent, from -57344 to 57344, and
--- infinity; see torch.float8_e4m3fn.
---@type string
torch.float8_e5m2 = "float8_e5m2"
--- The dtype of 8-bit floating numbers from -240 to 240, without infinity and negative zero; see
--- torch.float8_e4m3fn. Larger numbers become NaN.
---@type string
torch.float8_e4m3fnuz = "float8_e4m3fnuz"
--- The dtype of 8-bit floating numbers from -57344 to 57344, without infinity and negative zero; see
--- torch.float8_e4m3fn. Larger numbers become NaN.
---@type string
torch.float8_e5m2fnuz = "float8_e5m2fnuz"
--- The dtype of powers of two from 2^-127 to 2^127, which serve as scales of blocks of numbers; see
--- torch.float8_e4m3fn. The dtype has neither zero nor negative numbers.
---@type string
torch.float8_e8m0fnu = "float8_e8m0fnu"
--- The dtype of complex numbers whose two parts are float32.
---@type string
torch.complex64 = "complex64"
--- The dtype of complex numbers whose two parts are float64.
---@type string
torch.complex128 = "complex128"
---Another name of complex64.
---@type string
torch.cfloat = "complex64"
---Another name of complex128.
---@type string
torch.cdouble = "complex128"
--- The dtype of complex numbers whose parts have 16 bits each. The dtype is meant for storage:
--- besides conversions, views and moves, only few operators take it, and these compute in
--- complex64.
---@type string
torch.complex32 = "complex32"
---Another name of complex32.
---@type string
torch.chalf = "complex32"
---Another name of float32.
---@type string
torch.float = "float32"
---Another name of float64.
---@type string
torch.double = "float64"
---Another name of float16.
---@type string
torch.half = "float16"
---Another name of int16.
---@type string
torch.short = "int16"
---Another name of int32.
---@type string
torch.int = "int32"
---Another name of int64.
---@type string
torch.long = "int64"
--- The dtype of quantized tensors that store 8-bit integers (see torch.quantize_per_tensor).
---@type string
torch.qint8 = "qint8"
--- The dtype of quantized tensors that store unsigned 8-bit integers (see
--- torch.quantize_per_tensor).
---@type string
torch.quint8 = "quint8"
--- The dtype of quantized tensors that store 32-bit integers (see torch.quantize_per_tensor).
---@type string
torch.qint32 = "qint32"
--- The item of an index that adds a dimension of size 1: `x[{torch.newaxis, 1}]`.
---@type lightuserdata
torch.newaxis = nil

--- The layout of dense tensors.
---@type string
torch.strided = "strided"
--- The layout of nested tensors (see torch.nested).
---@type string
torch.jagged = "jagged"
--- The layout of sparse tensors with a position for each value (COO);
--- see torch.sparse_coo_tensor.
---@type string
torch.sparse_coo = "sparse_coo"
--- The layout of sparse matrices compressed by rows (CSR);
--- see torch.sparse_csr_tensor.
---@type string
torch.sparse_csr = "sparse_csr"
--- The layout of sparse matrices compressed by columns (CSC);
--- see torch.sparse_csc_tensor.
---@type string
torch.sparse_csc = "sparse_csc"
--- The layout of sparse matrices of blocks, compressed by rows (BSR);
--- see torch.sparse_bsr_tensor.
---@type string
torch.sparse_bsr = "sparse_bsr"
--- The layout of sparse matrices of blocks, compressed by columns (BSC);
--- see torch.sparse_bsc_tensor.
---@type string
torch.sparse_bsc = "sparse_bsc"

---Infinity.
---@type number
torch.inf = math.huge
---The value of an undefined result, such as 0 / 0; it equals nothing, not even itself.
---@type number
torch.nan = 0 / 0
---The ratio of a circle's circumference to its diameter.
---@type number
torch.pi = math.pi
---Euler's number.
---@type number
torch.e = 2.718281828459045
---tlua's version.
---@type string
torch.__version__ = ""

--- Returns the dtype of new floating-point tensors; "float32" unless set otherwise.
---@return string
function torch.get_default_dtype() end

---Sets the dtype of new tensors of floating-point numbers, for the whole Lua state.
---@param dtype string
function torch.set_default_dtype(dtype) end

--- Returns the device of new tensors for which no device is given; "cpu" unless set otherwise.
---@return torch.device
function torch.get_default_device() end

--- Sets, for the calling Lua thread, the device of new tensors for which no device is given. With
--- the option `--device sim`, tlua calls this function before a script begins.
---@param device string|torch.device such as "cpu", "sim", "cuda:1" or "meta"
function torch.set_default_device(device) end

--- Opens a scope in which this Lua thread makes new tensors on this device, if no other device is
--- given. As with torch.no_grad, the scope is the call of a function, `torch.default_device("meta",
--- fn)`, or the rest of a block, `local _ <close> = torch.default_device "meta"`.
--- `torch.device("meta", fn)` has the same effect.
---@param device string|torch.device such as "meta", "cpu" or "cuda:1"
---@param fn? function
---@param ... any  passed to fn
---@return any ... what fn returns, or the scope
function torch.default_device(device, fn, ...) end

--- Returns the limits of a floating-point dtype, or of the parts of a complex dtype, as a table
--- with bits, eps, max, min, tiny, smallest_normal and resolution.
---@param dtype? string
---@return table
function torch.finfo(dtype) end

--- Returns the limits of an integer dtype, as a table with bits, max and min.
---@param dtype string
---@return table
function torch.iinfo(dtype) end

--- Returns the dtype to which two dtypes are promoted.
---@param a string
---@param b string
---@return string
function torch.promote_types(a, b) end

--- Returns whether values of the first dtype may be written to tensors of the second.
--- Floating-point values may not be written to integer tensors, nor numbers to tensors of booleans.
---@param from string  the dtype of the values
---@param to string  the dtype of the tensors
---@return boolean
function torch.can_cast(from, to) end

--- Returns the dtype that the result of an operator has for these two operands, which are tensors
--- or numbers.
---@param a torch.Tensor|number
---@param b torch.Tensor|number
---@return string
function torch.result_type(a, b) end

--- Copies a list of integers to a torch.Size, the type of x.shape and x:size(). As in PyTorch, ==
--- compares the sizes of two torch.Size values or with a plain list, and print shows the sizes.
--- Negative positions count from the end, and position 0 is an error. The method `numel` returns
--- the product of the sizes.
---
---     local x = torch.zeros(2, 3)
---     print(x.shape == torch.Size {2, 3}, x.shape[-1], x.shape:numel())
---     --> true	3	6
---     print(x.shape)
---     --> torch.Size([2, 3])
---@param sizes integer[]
---@return integer[]
function torch.Size(sizes) end

--- Returns the common shape to which the given shapes broadcast.
---@param ... integer[]
---@return integer[]
function torch.broadcast_shapes(...) end
