-- types.lua - what the binding offers beside the operators, as annotations for editors that know
-- LuaLS. The generator takes the manual's text on these functions from here. Not run. Devices are in
-- types_devices.lua.

-- Tensors ---------------------------------------------------------------------------------------

---A new tensor from a number, a boolean or tables of them, nested to any depth; from a tensor: a
---copy without history. int64 for integers, the default dtype (float32) for numbers with a point,
---bool for booleans, unless dtype is given. A ragged table is an error that says where.
---@param data number|boolean|table|torch.Tensor
---@param options? {dtype?: string, device?: string|torch.device, requires_grad?: boolean}
---@return torch.Tensor
function torch.tensor(data, options) end

---The same as torch.tensor, but a tensor that already has the dtype and device is returned itself.
---@param data number|boolean|table|torch.Tensor
---@param options? {dtype?: string, device?: string|torch.device}
---@return torch.Tensor
function torch.as_tensor(data, options) end

---torch.tensor with x's dtype and device unless others are given.
---@param data number|boolean|table|torch.Tensor
---@param options? {dtype?: string, device?: string|torch.device, requires_grad?: boolean}
---@return torch.Tensor
function Tensor:new_tensor(data, options) end

---Whether a value is a tensor.
---@param value any
---@return boolean
function torch.is_tensor(value) end

---The number of elements.
---@param self torch.Tensor
---@return integer
function torch.numel(self) end

---The number of elements.
---@return integer
function Tensor:numel() end

---The same as numel.
---@return integer
function Tensor:nelement() end

---The number of dimensions.
---@return integer
function Tensor:dim() end

---The same as dim.
---@return integer
function Tensor:ndimension() end

---The sizes as a table, or the size of one dimension.
---@param dim? integer
---@return integer|integer[]
function Tensor:size(dim) end

---The strides, in elements, as a table, or that of one dimension.
---@param dim? integer
---@return integer|integer[]
function Tensor:stride(dim) end

---Where the first element lies in the storage, in elements from 0.
---@return integer
function Tensor:storage_offset() end

---The bytes of one element.
---@return integer
function Tensor:element_size() end

---The address of the first element, as a number; for debugging and for other libraries in C.
---@return integer
function Tensor:data_ptr() end

---Whether the dtype is float32, float64, float16 or bfloat16.
---@return boolean
function Tensor:is_floating_point() end

--- The number of the tensor's device; -1 for the CPU.
---@return integer
function Tensor:get_device() end

--- Whether its elements are complex numbers: false.
---@return boolean
function Tensor:is_complex() end

---Whether the dtype is float32, float64, float16 or bfloat16.
---@param self torch.Tensor
---@return boolean
function torch.is_floating_point(self) end

---The only element, as a number or a boolean; an error if there is not exactly one.
---@return number|boolean
function Tensor:item() end

---All elements as nested tables; a number or a boolean for a tensor of no dimensions.
---@return number|boolean|table
function Tensor:tolist() end

---The same as tolist, for a tensor on the CPU that requires no gradient. There is no NumPy in Lua:
---the tensor itself computes, and torch.save(x, "x.npy") writes a file for Python.
---@return number|boolean|table
function Tensor:numpy() end

---An iterator over the positions of the first dimension: for row in x:iter() do.
---@return function
function Tensor:iter() end

---Replaces every element by what a function makes of it, in row-major order.
---@param fn fun(element: number|boolean): number|boolean
---@return torch.Tensor self
function Tensor:apply_(fn) end

---Replaces every element by what a function makes of it and of other's element in its place.
---@param other torch.Tensor of a shape that broadcasts to self's
---@param fn fun(element: number|boolean, other: number|boolean): number|boolean
---@return torch.Tensor self
function Tensor:map_(other, fn) end

---Gives up the memory now, not when the collector comes by; using the tensor afterwards is an
---error. `local x <close> = ...` does it at the end of the block.
function Tensor:release() end

-- Dtypes ----------------------------------------------------------------------------------------

---Each constant is the dtype's name: torch.float32 == "float32" == x.dtype.
---@type string
torch.float32 = "float32"
---@type string
torch.float64 = "float64"
---@type string
torch.float16 = "float16"
---@type string
torch.bfloat16 = "bfloat16"
---@type string
torch.int8 = "int8"
---@type string
torch.int16 = "int16"
---@type string
torch.int32 = "int32"
---@type string
torch.int64 = "int64"
---@type string
torch.uint8 = "uint8"
---@type string
torch.bool = "bool"
---@type string
torch.float = "float32"
---@type string
torch.double = "float64"
---@type string
torch.half = "float16"
---@type string
torch.short = "int16"
---@type string
torch.int = "int32"
---@type string
torch.long = "int64"
---The only layout.
---@type string
torch.strided = "strided"

---@type number
torch.inf = math.huge
---@type number
torch.nan = 0 / 0
---@type number
torch.pi = math.pi
---Euler's number.
---@type number
torch.e = 2.718281828459045
---tlua's version.
---@type string
torch.__version__ = ""

---The dtype of new tensors of floating-point numbers; "float32" unless it was set.
---@return string
function torch.get_default_dtype() end

---Sets the dtype of new tensors of floating-point numbers, for the whole Lua state.
---@param dtype string
function torch.set_default_dtype(dtype) end

---The device of new tensors for which none is named; "cpu" unless it was set.
---@return torch.device
function torch.get_default_device() end

---Sets the device of new tensors for which none is named, for the calling thread.
---`tlua --device sim` does so before a script begins.
---@param device string|torch.device such as "cpu", "sim", "cuda:1" or "meta"
function torch.set_default_device(device) end

---Within the scope new tensors for which no device is named are made on this one, in this thread;
---forms as of torch.no_grad: `torch.default_device("meta", fn)`, or
---`local _ <close> = torch.default_device "meta"` to the end of the block.
---`torch.device("meta", fn)` is the same.
---@param device string|torch.device such as "meta", "cpu" or "cuda:1"
---@param fn? function
---@param ... any  passed to fn
---@return any ... what fn returns, or the scope
function torch.default_device(device, fn, ...) end

---The limits of a floating-point dtype: bits, eps, max, min, tiny, smallest_normal, resolution.
---@param dtype? string
---@return table
function torch.finfo(dtype) end

---The limits of an integer dtype: bits, max, min.
---@param dtype string
---@return table
function torch.iinfo(dtype) end

---The dtype that two dtypes are promoted to.
---@param a string
---@param b string
---@return string
function torch.promote_types(a, b) end

---Whether values of one dtype may be written into another: not from floating-point numbers to
---integers, nor from numbers to bool.
---@param from string
---@param to string
---@return boolean
function torch.can_cast(from, to) end

---The dtype of an operator's result for these operands, tensors or numbers.
---@param a torch.Tensor|number
---@param b torch.Tensor|number
---@return string
function torch.result_type(a, b) end

---The shape that shapes broadcast to.
---@param ... integer[]
---@return integer[]
function torch.broadcast_shapes(...) end

-- Gradients -------------------------------------------------------------------------------------

---Computes the gradients of x with respect to all leaves that require one, and adds them to their
---grad. `gradient`, of x's shape, is needed unless x has one element. retain_graph keeps what was
---saved, for another pass; create_graph records this pass, for second derivatives; inputs limits
---it to some tensors.
---@param options? {gradient?: torch.Tensor, retain_graph?: boolean, create_graph?: boolean, inputs?: torch.Tensor[]}
function Tensor:backward(options) end

---The backward pass from several tensors at once; see Tensor.backward.
---@param tensors torch.Tensor|torch.Tensor[]
---@param grad_tensors? torch.Tensor|torch.Tensor[]
---@param options? {retain_graph?: boolean, create_graph?: boolean, inputs?: torch.Tensor[]}
function torch.autograd.backward(tensors, grad_tensors, options) end

---The gradients of outputs with respect to inputs, as several values (a table for a table of
---inputs); no grad is changed. An input that has no part in outputs is an error, or nil with
---allow_unused.
---@param outputs torch.Tensor|torch.Tensor[]
---@param inputs torch.Tensor|torch.Tensor[]
---@param options? {grad_outputs?: torch.Tensor|torch.Tensor[], retain_graph?: boolean, create_graph?: boolean, allow_unused?: boolean, is_grads_batched?: boolean}
---@return torch.Tensor ...
function torch.autograd.grad(outputs, inputs, options) end

---Whether x's gradient is wanted from now on. Only for leaves of floating-point dtypes.
---@param requires_grad? boolean true unless given
---@return torch.Tensor self
function Tensor:requires_grad_(requires_grad) end

---Lets x, which is no leaf, keep its gradient in x.grad.
function Tensor:retain_grad() end

---Calls fn with x's gradient as soon as a backward pass has it; a tensor that it returns takes the
---gradient's place. The handle's remove method takes the hook away.
---
---A function that refers to x itself goes with x. One that refers to something else that was made
---of x (a view of it, a result computed from it) keeps both alive until it is removed.
---@param fn fun(grad: torch.Tensor): torch.Tensor?
---@return table handle
function Tensor:register_hook(fn) end

---Turns recording off: torch.no_grad(fn, ...) calls fn without recording and returns its results;
---local _ <close> = torch.no_grad() turns it off until the end of the block.
---
---Modes (this one, inference_mode, detect_anomaly) belong to the coroutine that sets them. They
---also hold in the coroutines that it resumes, unless those have set their own. A mode has no
---effect while its coroutine is suspended, and none after the coroutine has ended or failed or was
---abandoned.
---@param fn? function
---@param ... any
---@return any ...
function torch.no_grad(fn, ...) end

---Turns recording on again inside torch.no_grad, and is called in the same forms.
---@param fn? function
---@param ... any
---@return any ...
function torch.enable_grad(fn, ...) end

---Turns recording on or off. After `enabled` it takes the same arguments as torch.no_grad.
---@param enabled boolean
---@param fn? function
---@param ... any
---@return any ...
function torch.set_grad_enabled(enabled, fn, ...) end

---Like torch.no_grad, and results can never take part in recording: a little faster.
---@param fn? function
---@param ... any
---@return any ...
function torch.inference_mode(fn, ...) end

---Mixed precision: operators on that kind of device that gain by it take float32 in the scope's
---dtype, those that need it get float32, as PyTorch's lists have it for the CPU and for GPUs; the
---manual's entries say what each does. Forms as of torch.no_grad, with options in front:
---
---    torch.autocast({device = "cuda", dtype = "bfloat16"}, function() ... end)
---    local _ <close> = torch.autocast("cpu")
---
---Options: `device` ("cpu", "cuda", "sim"), `dtype` ("bfloat16", "float16"; by default that of the
---scope around, else bfloat16 on the CPU and float16 on GPUs), `enabled` (false: as if there were
---none), `cache_enabled` (true: a parameter is cast once until the outermost scope ends). Forms in
---place and with out= are left alone. Run backward() outside.
---@param options table|string
---@param fn? function
---@param ... any
---@return any ...
function torch.autocast(options, fn, ...) end

---Whether torch.autocast is on for a kind of device, or for any.
---@param device? string|torch.device
---@return boolean
function torch.is_autocast_enabled(device) end

---What torch.autocast casts to on a kind of device, or would.
---@param device string|torch.device
---@return string
function torch.get_autocast_dtype(device) end

---Whether casts of parameters are kept.
---@return boolean
function torch.is_autocast_cache_enabled() end

---Lets go of the casts of parameters that are kept.
function torch.clear_autocast_cache() end

---Whether operators are recorded now.
---@return boolean
function torch.is_grad_enabled() end

---Whether torch.inference_mode holds.
---@return boolean
function torch.is_inference_mode_enabled() end

---Anomaly mode: an error in a backward pass names the Lua line of the forward call, and NaN in a
---gradient is an error. Forms as of torch.no_grad.
---@param fn? function
---@param ... any
---@return any ...
function torch.autograd.detect_anomaly(fn, ...) end

---Turns anomaly mode on or off.
---@param mode boolean
function torch.autograd.set_detect_anomaly(mode) end

---Whether anomaly mode is on.
---@return boolean
function torch.autograd.is_anomaly_enabled() end

---Calls a function once when the backward pass that is running has ended without an error; for
---hooks that collect what they see until all gradients are there.
---@param fn fun()
function torch.autograd.queue_callback(fn) end

-- Random numbers --------------------------------------------------------------------------------

---Starts the random numbers anew: the same seed gives the same numbers, on every device and for
---any number of threads.
---@param seed integer
function torch.manual_seed(seed) end

---Starts the random numbers anew from a seed that the system gives, and returns it.
---@return integer
function torch.seed() end

---The seed that the random numbers began with.
---@return integer
function torch.initial_seed() end

---The state of the random numbers, plain data for torch.set_rng_state.
---@return {seed: integer, offset: integer}
function torch.get_rng_state() end

---Goes back to a state that torch.get_rng_state gave.
---@param state table
function torch.set_rng_state(state) end

---A source of random numbers: a seed, and how far the numbers have been drawn.
---@class torch.Generator
---@field manual_seed fun(self, seed: integer): torch.Generator  starts the numbers anew
---@field seed fun(self): integer  starts them anew from a seed of the system's
---@field initial_seed fun(self): integer  the seed that the numbers began with
---@field get_state fun(self): table  plain data for set_state
---@field set_state fun(self, state: table): torch.Generator

---A collective or a message that is under way, of a call with async_op = true.
---@class distributed.Work
---@field wait fun(self, timeout?: number)  returns once it is done; an error if it has failed
---@field is_completed fun(self): boolean

---A source of random numbers of its own, for the option `generator`, with the field `device`;
---methods manual_seed, seed, initial_seed, get_state, set_state, clone_state, get_offset and
---set_offset (how many numbers were drawn, rounded up to blocks of four), graphsafe_get_state (a
---generator that shares the state) and graphsafe_set_state (shares another generator's state).
---@param device? string|torch.device|{device: string|torch.device}  "cpu" by default
---@return torch.Generator
function torch.Generator(device) end

---What the CPU draws from unless another generator is named.
---@type torch.Generator
torch.default_generator = nil

-- Threads and memory ----------------------------------------------------------------------------

---How many threads an operator may use; holds for the whole process. Results do not depend on it.
---@param threads integer
function torch.set_num_threads(threads) end

---How many threads an operator may use.
---@return integer
function torch.get_num_threads() end

---Calls fn and frees every tensor that was made meanwhile, but for those it returns: by the calling
---coroutine and those that it resumes, unless they have a scope of their own. Closing a coroutine
---ends its scopes.
---@param fn function
---@param ... any
---@return any ...
function torch.scope(fn, ...) end

---Bytes of tensor memory on the CPU: used by the process, cached for reuse, live in this Lua
---state, and by PyTorch's names ("allocated_bytes.all.peak"). Of another device: its figures.
---@param device? string|torch.device
---@return {used: integer, cached: integer, live: integer}
function torch.memory_stats(device) end

---Those figures as a text, with the lines whose tensors are alive while their history is recorded.
---@param device? string|torch.device
---@return string
function torch.memory_summary(device) end

---Notes from now on which line makes what is alive, or no more. It costs about a microsecond a
---tensor; messages of lacking memory then name the lines that hold most.
---@param on? boolean
function torch.record_memory_history(on) end

---What was made since record_memory_history and is alive, in groups of the same size, dtype, line
---and operator, those of the most bytes first.
---@param device? string|torch.device
---@return {bytes: integer, count: integer, size: integer, dtype: string, line: string}[]
function torch.memory_snapshot(device) end

---Bytes that tensors of a device use, by default of the CPU.
---@param device? string|torch.device
---@return integer
function torch.memory_allocated(device) end

---The most that memory_allocated has been since reset_peak_memory_stats; of the CPU to some KB.
---@param device? string|torch.device
---@return integer
function torch.max_memory_allocated(device) end

---The peak begins anew from what is used now.
---@param device? string|torch.device
function torch.reset_peak_memory_stats(device) end

---Gives cached memory back to the system.
function torch.memory_trim() end

---Past so many bytes an allocation is an error; 0: no limit.
---@param bytes integer
function torch.set_memory_limit(bytes) end

-- The library -----------------------------------------------------------------------------------

---How tensors are printed: precision (digits), threshold (elements from which on the middle is
---left out), edgeitems, linewidth, sci_mode.
---@param options {precision?: integer, threshold?: integer, edgeitems?: integer, linewidth?: integer, sci_mode?: boolean, profile?: string}
function torch.set_printoptions(options) end

---Calls hook(self) whenever a gradient was added to .grad of this leaf: it may step an optimizer
---for it and drop the gradient at once. The handle's `remove` takes it away.
---@param hook fun(leaf: torch.Tensor)
---@return {remove: fun(self: table)}
function Tensor:register_post_accumulate_grad_hook(hook) end

---What set_printoptions has set.
---@return {precision: integer, threshold: integer, edgeitems: integer, linewidth: integer}
function torch.get_printoptions() end

---Which operators may give other bits each time: "default" any, "warn", "error" only those that do
---not; or 0, 1, 2. On the CPU results have the same bits in any case.
---@param mode "default"|"warn"|"error"|integer
function torch.set_deterministic_debug_mode(mode) end

---@return integer mode  0, 1 or 2
function torch.get_deterministic_debug_mode() end

---What the library was built with and has found.
---@return table
function torch.config() end

---Raises an error at the line of the user's that called the library; for modules in Lua.
---@param message string
function torch.raise(message) end

-- Files -----------------------------------------------------------------------------------------

---Reads a tensor's elements from an open file; nil and a message at its end.
---@param file file*
---@param shape integer[]
---@param dtype string
---@return torch.Tensor?, string?
function torch.io.read(file, shape, dtype) end

---Writes a tensor's elements, row-major, to an open file; nil and a message if that fails.
---@param file file*
---@param tensor torch.Tensor
---@return boolean?, string?
function torch.io.write(file, tensor) end

---A file whose content takes the place of what is at `path` when it is committed; one that is
---closed before leaves that as it was. nil and a message if it cannot be made. `named`: until then
---it is seen in the folder, as .tlua-PROCESS-COUNT-TIME.tmp.
---@param path string
---@param named? boolean
---@return file*?, string?
function torch.io.replace(path, named) end

---Closes a file that `replace` has made, puts it in its place, and returns when it is on the disk.
---nil, a message, and whether another attempt may work, if that fails.
---@param file file*
---@return boolean?, string?, boolean?
function torch.io.commit(file) end

---Whether a person sees what is written to the file.
---@param file file*
---@return boolean
function torch.io.is_terminal(file) end

---Seconds since some moment in the past.
---@return number
function torch.io.clock() end

---Seconds since 1970, with their fraction, by the system's clock, which may be set.
---@return number
function torch.io.time() end

---A file's bytes, (n) uint8, which are read when they are looked at. nil and a message if it
---cannot be opened.
---@param path string
---@return torch.Tensor?, string?
function torch.io.map(path) end

---A string's bytes as a tensor.
---@param text string
---@return torch.Tensor bytes (n) uint8
function torch.io.bytes(text) end

---Bytes as elements of another dtype, little-endian and row-major: over the same memory where they
---are aligned, else a copy. nil and a message where there are too few.
---@param bytes torch.Tensor  (n) uint8, contiguous
---@param first integer  the position of the first one, from 1
---@param shape integer[]
---@param dtype string
---@return torch.Tensor?, string?
function torch.io.bytes_as(bytes, first, shape, dtype) end

---The text of n bytes.
---@param bytes torch.Tensor  (n) uint8, contiguous
---@param first integer  from 1
---@param n integer
---@return string
function torch.io.text(bytes, first, n) end

---Unpacks deflated bytes; nil and a message if that fails.
---@param bytes torch.Tensor  (n) uint8, contiguous
---@param kind "raw"|"gzip"
---@param expected? integer  exactly that many
---@return torch.Tensor?, string?
function torch.io.inflate(bytes, kind, expected) end

---Deflates the bytes of the text and, behind them, those of the tensor, as .npz files have
---them; nil and a message if that fails.
---@param text string
---@param tensor torch.Tensor  contiguous, on the CPU
---@return torch.Tensor? bytes  (n) uint8
---@return string?
function torch.io.deflate(text, tensor) end

---Blocks of a GGUF quantization as float32; nil and a message for unknown ones.
---@param bytes torch.Tensor  (n) uint8, contiguous
---@param first integer  from 1
---@param shape integer[]
---@param kind "Q4_0"|"Q8_0"|"Q4_K"|"Q6_K"
---@return torch.Tensor?, string?
function torch.io.dequantize(bytes, first, shape, kind) end

---The pixels of a PNG or JPEG file, (channels, height, width) uint8; nil and a message if it is
---damaged or its library is missing.
---@param bytes string|torch.Tensor  the file's; a tensor is (n) uint8, contiguous
---@return torch.Tensor?, string?
function torch.io.decode_image(bytes) end

---The checksum of zip and PNG files: of a text, or of the bytes that torch.io.write would write of a
---tensor.
---@param data string|torch.Tensor
---@param crc? integer  that of what comes before
---@return integer
function torch.io.crc32(data, crc) end

---What is in a folder, but "." and "..", in no order: of each entry "d" for a folder, "l" for a link
---to one and "f" for anything else, the name and a byte 0. torch.data.DatasetFolder is made of it.
---@param path string
---@return torch.Tensor? bytes  (n) uint8; nil with a message where the folder cannot be read
---@return string? message
function torch.io.folder(path) end

---Makes a folder, and those that it lies in, unless they are there.
---@param path string
---@return string? path  the absolute one; nil with a message where it cannot be made
---@return string? message
function torch.io.make_folder(path) end

---Reads up to `rows` rows of fields, which may be quoted, from the byte `first` on, which is in the
---line `line`; torch.data.CSV is made of it.
---@param bytes torch.Tensor  (n) uint8, contiguous, on the CPU
---@param first integer  from 1
---@param delimiter string
---@param quote string  "": none
---@param types string[]  of each column a dtype, "string" or "skip"
---@param rows integer
---@param line integer
---@return (torch.Tensor|string[]|false)[]? columns  nil with a message where the text is wrong
---@return integer|string rows  that were read
---@return integer? first  of the next row
---@return integer? line
function torch.io.csv(bytes, first, delimiter, quote, types, rows, line) end

---How many fields the row that begins at a byte has; 0 at the end.
---@param bytes torch.Tensor  (n) uint8, contiguous, on the CPU
---@param first integer  from 1
---@param delimiter string
---@param quote string  "": none
---@return integer? fields  nil with a message where the text is wrong
---@return string? message
function torch.io.csv_fields(bytes, first, delimiter, quote) end

-- Threads with an interpreter of their own ---------------------------------------------------------

---Starts n threads. Each calls what the module gives, a function, with `stopped`, its handle, its
---number from 0 and the values; the result is called for each job.
---@param name string  begins the message about what cannot travel
---@param n integer
---@param module string
---@param ... any
---@return table pool  with methods send, take and stop
function torch.workers.start(name, n, module, ...) end

---How many of this interpreter's workers run.
---@return integer
function torch.workers.running() end
