-- types.lua - annotations of the binding's functions that are not operators, for editors that use
-- LuaLS. The manual also takes its texts about these functions from this file. The file is never
-- run. Dtypes and constants are annotated in types_dtypes.lua; types_devices.lua annotates
-- functions for devices, and types_io.lua functions for files, and for threads with their own
-- interpreters.

-- Modules ---------------------------------------------------------------------------------------

--- The library: tensors, operators on tensors, and modules such as torch.nn. `local torch = require
--- "tlua"` loads it.
torch = {}

--- The methods of tensors: `x:sum(1)` is `torch.sum(x, 1)`.
torch.Tensor = {}

--- Gradients: torch.autograd.grad, Function, derivatives of Lua functions, and checks of gradients.
torch.autograd = {}

--- Training by several processes: groups of ranks, collectives, and data-parallel training.
torch.distributed = {}

--- Discrete Fourier transforms.
torch.fft = {}

--- Files of tensors and arrays: safetensors, NumPy's and PyTorch's formats, CSV and others.
torch.io = {}

--- Linear algebra: decompositions, solvers and norms.
torch.linalg = {}

--- Layers and losses as functions, without parameters of their own.
torch.nn.functional = {}

--- Special functions of mathematics.
torch.special = {}

--- Threads that each have an interpreter; data loaders use such threads.
torch.workers = {}

-- Tensors ---------------------------------------------------------------------------------------

--- Makes a tensor from a number, a boolean or nested tables of them. If `data` is a tensor, copies
--- it without history. Without dtype, integers give int64, floats the default dtype (float32),
--- complex numbers complex64 and booleans bool. If a table is ragged, the error names the element
--- that does not fit.
---@param data number|boolean|table|torch.Tensor
---@param options? {dtype?: string, device?: string|torch.device, requires_grad?: boolean}
---@return torch.Tensor
function torch.tensor(data, options) end

--- Makes a tensor like torch.tensor, but returns `data` itself if that is a tensor with the wanted
--- dtype and device.
---@param data number|boolean|table|torch.Tensor
---@param options? {dtype?: string, device?: string|torch.device}
---@return torch.Tensor
function torch.as_tensor(data, options) end

--- Makes a tensor like torch.tensor, with x's dtype and device by default.
---@param data number|boolean|table|torch.Tensor
---@param options? {dtype?: string, device?: string|torch.device, requires_grad?: boolean}
---@return torch.Tensor
function Tensor:new_tensor(data, options) end

--- Returns whether a value is a tensor.
---@param value any
---@return boolean
function torch.is_tensor(value) end

--- Returns the number of elements.
---@param self torch.Tensor
---@return integer
function torch.numel(self) end

--- Returns the number of elements.
---@return integer
function Tensor:numel() end

--- Returns the number of elements; the same as numel.
---@return integer
function Tensor:nelement() end

--- Returns the number of dimensions.
---@return integer
function Tensor:dim() end

--- Returns the number of dimensions; the same as dim.
---@return integer
function Tensor:ndimension() end

--- Returns the sizes as a torch.Size, or the size of one dimension.
---@param dim? integer
---@return integer|integer[]
function Tensor:size(dim) end

--- Returns the strides as a table, or the stride of one dimension, in elements.
---@param dim? integer
---@return integer|integer[]
function Tensor:stride(dim) end

--- Returns whether the tensor was made in inference mode. An operator that records a gradient
--- cannot use such a tensor.
---@return boolean
function Tensor:is_inference() end

--- Returns whether `tensor` has the same memory, sizes and strides as this tensor.
---@param tensor torch.Tensor
---@return boolean
function Tensor:is_set_to(tensor) end

--- Returns the dimensions in the order of their strides, the largest stride first. For the memory
--- format channels_last this is {1, 3, 4, 2}.
---@return integer[]
function Tensor:dim_order() end

--- Returns the short-time Fourier transform of signals, as torch.stft does.
---@param n_fft integer  the number of samples in a frame
---@param options? {hop_length?: integer, win_length?: integer, window?: torch.Tensor, center?: boolean, pad_mode?: string, normalized?: boolean, onesided?: boolean, return_complex?: boolean, align_to_window?: boolean}
---@return torch.Tensor
function Tensor:stft(n_fft, options) end

--- Returns the signals whose short-time Fourier transform is this tensor, as torch.istft does.
---@param n_fft integer  the number of samples in a frame
---@param options? {hop_length?: integer, win_length?: integer, window?: torch.Tensor, center?: boolean, normalized?: boolean, onesided?: boolean, length?: integer, return_complex?: boolean}
---@return torch.Tensor
function Tensor:istft(n_fft, options) end

--- Returns the memory that this tensor and its views share, as an object that gives access to the
--- bytes.
---@return torch.UntypedStorage
function Tensor:untyped_storage() end

--- Converts the tensor to a sparse layout, by default sparse_coo, which stores the nonzero
--- elements. With sparse_dim = n, dimensions after the n-th stay dense. Gradients flow back to this
--- tensor.
---
---     local x = torch.tensor {{0.0, 3.0}, {4.0, 0.0}}
---     print(x:to_sparse():values())
---     --> tensor([3., 4.])
---@param sparse_dim? integer  number of sparse dimensions, all unless given
---@param options? {layout: string, blocksize: integer[], dense_dim: integer}  dense_dim: number of the
--- last dimensions that stay dense, for layouts other than sparse_coo
---@return torch.Tensor
function Tensor:to_sparse(sparse_dim, options) end
--- Converts the tensor to the layout sparse_coo.
---@return torch.Tensor
function Tensor:to_sparse_coo() end
--- Converts a matrix, or a batch of matrices with equal numbers of nonzero elements, to the layout
--- sparse_csr.
---@param dense_dim? integer  number of the last dimensions that stay dense, 0 unless given
---@return torch.Tensor
function Tensor:to_sparse_csr(dense_dim) end
--- Converts a matrix or a batch of matrices to the layout sparse_csc.
---@param dense_dim? integer  number of the last dimensions that stay dense, 0 unless given
---@return torch.Tensor
function Tensor:to_sparse_csc(dense_dim) end
--- Converts a matrix or a batch of matrices to the layout sparse_bsr.
---@param blocksize? integer[]  rows and columns of a block; by default a block matrix keeps its block size
---@param options? {dense_dim: integer}  number of the last dimensions that stay dense, 0 unless given
---@return torch.Tensor
function Tensor:to_sparse_bsr(blocksize, options) end
--- Converts a matrix or a batch of matrices to the layout sparse_bsc.
---@param blocksize? integer[]  rows and columns of a block; by default a block matrix keeps its block size
---@param options? {dense_dim: integer}  number of the last dimensions that stay dense, 0 unless given
---@return torch.Tensor
function Tensor:to_sparse_bsc(blocksize, options) end
--- Converts a sparse tensor to a dense one. A dense tensor is returned unchanged.
---@param dtype? string
---@return torch.Tensor
function Tensor:to_dense(dtype) end
--- Returns a sparse_coo tensor with sorted, unique positions; values that share a position are
--- summed.
---
---     local s = torch.sparse_coo_tensor({{2, 1, 2}}, {1.0, 2.0, 3.0}, {3})
---     print(s:coalesce():values())
---     --> tensor([2., 4.])
---@return torch.Tensor
function Tensor:coalesce() end
--- Returns whether the positions of a sparse_coo tensor are sorted and without duplicates.
---@return boolean
function Tensor:is_coalesced() end
--- Returns the positions of a coalesced sparse_coo tensor, (sparse_dim, n), counted from 1.
---@return torch.Tensor
function Tensor:indices() end
--- Returns the values of a sparse tensor. A tensor in the layout sparse_coo must be coalesced.
---@return torch.Tensor
function Tensor:values() end
--- Returns, for each row of a sparse_csr or sparse_bsr tensor, the position, from 1, of the row's
--- first value or block. The last entry is one past the end.
---@return torch.Tensor
function Tensor:crow_indices() end
--- Returns the column, from 1, of each element of a sparse_csr tensor, or of each block of a
--- sparse_bsr tensor.
---@return torch.Tensor
function Tensor:col_indices() end
--- Returns, for each column of a sparse_csc or sparse_bsc tensor, the position, from 1, of the
--- column's first value or block. The last entry is one past the end.
---@return torch.Tensor
function Tensor:ccol_indices() end
--- Returns the row, from 1, of each element of a sparse_csc tensor, or of each block of a
--- sparse_bsc tensor.
---@return torch.Tensor
function Tensor:row_indices() end
--- Returns the number of sparse dimensions, for which a sparse tensor stores positions.
---@return integer
function Tensor:sparse_dim() end
--- Returns the number of dense dimensions of a sparse tensor, that is, of the dimensions of each
--- stored value.
---@return integer
function Tensor:dense_dim() end
--- Gives a sparse_coo tensor another shape, in which all elements keep their positions.
---@param size integer[]  the new size
---@param sparse_dim integer  number of sparse dimensions
---@param dense_dim integer  number of dense dimensions
---@return torch.Tensor self
function Tensor:sparse_resize_(size, sparse_dim, dense_dim) end
--- Gives a sparse_coo tensor another shape, and removes all elements.
---@param size integer[]  the new size
---@param sparse_dim integer  number of sparse dimensions
---@param dense_dim integer  number of dense dimensions
---@return torch.Tensor self
function Tensor:sparse_resize_and_clear_(size, sparse_dim, dense_dim) end
--- Returns a sparse tensor of the elements at the positions that `mask`, a sparse tensor, stores.
---@param mask torch.Tensor
---@return torch.Tensor
function Tensor:sparse_mask(mask) end

--- Returns the tensor's memory as a list of elements of the tensor's dtype.
---@return torch.TypedStorage
function Tensor:storage() end

--- Returns the position of the first element in the storage, counted in elements from 0.
---@return integer
function Tensor:storage_offset() end

--- Returns the number of bytes of one element.
---@return integer
function Tensor:element_size() end

--- Returns the address of the first element as a number, for debugging and for passing the tensor
--- to other C libraries.
---@return integer
function Tensor:data_ptr() end

--- Returns whether the dtype is float32, float64, float16 or bfloat16.
---@return boolean
function Tensor:is_floating_point() end

--- Returns the index of the tensor's device; -1 for the CPU.
---@return integer
function Tensor:get_device() end

--- Returns whether the dtype is complex64 or complex128.
---@return boolean
function Tensor:is_complex() end

--- Returns whether the dtype is float32, float64, float16 or bfloat16.
---@param self torch.Tensor
---@return boolean
function torch.is_floating_point(self) end

--- Returns the only element, as a number, a complex number or a boolean. Raises an error unless
--- there is exactly one element.
---@return number|boolean|torch.ComplexNumber
function Tensor:item() end

--- Returns all elements as nested tables; a number or a boolean for a 0-dimensional tensor.
---@return number|boolean|table
function Tensor:tolist() end

--- Returns all elements like tolist, for a tensor on the CPU that requires no gradient. Lua has no
--- NumPy: compute with the tensor itself; torch.save(x, "x.npy") writes a file for Python.
---@return number|boolean|table
function Tensor:numpy() end

--- Returns an iterator over the first dimension, for use as `for row in x:iter() do`.
---@return function
function Tensor:iter() end

--- Replaces every element by the function's result for that element, in row-major order.
---@param fn fun(element: number|boolean): number|boolean
---@return torch.Tensor self
function Tensor:apply_(fn) end

--- Replaces every element by fn(element, other element), where the other element is at the same
--- position in `other`.
---@param other torch.Tensor of a shape that broadcasts to self's
---@param fn fun(element: number|boolean, other: number|boolean): number|boolean
---@return torch.Tensor self
function Tensor:map_(other, fn) end

--- Releases the tensor's memory now, without waiting for the garbage collector. Any later use of
--- the tensor is an error. `local x <close> = ...` releases x at the end of the block.
function Tensor:release() end

--- Returns the dtype's name or, if a dtype is given, the tensor converted to that dtype.
---@param dtype? string
---@return string|torch.Tensor
function Tensor:type(dtype) end

-- Gradients -------------------------------------------------------------------------------------

--- Records a call whose derivative is a Lua function; torch.autograd.Function is the usual way to
--- do so. Each table of tensors has a field `n`, the number of tensors.
---@param name string  the node's name in graphs and messages
---@param inputs table
---@param outputs table  the tensors whose grad_fn will be the node
---@param constant table  the positions of outputs that get no gradient
---@param saved table  the tensors saved for backward; later changes of them are detected
---@param backward fun(saved: table, ...: torch.Tensor?): torch.Tensor? ...
---@param dirty? table  inputs that the call has changed in place
function torch.autograd.record(name, inputs, outputs, constant, saved, backward, dirty) end

--- Computes the gradient of this tensor with respect to each leaf that requires a gradient, and
--- adds the gradient to the leaf's field `grad`. The option `gradient`, a tensor of the same shape
--- as this one, is required unless this tensor has only one element. retain_graph keeps the saved
--- tensors for another pass. create_graph records this pass, for second derivatives. With `inputs`
--- only these tensors receive gradients.
---@param options? {gradient?: torch.Tensor, retain_graph?: boolean, create_graph?: boolean, inputs?: torch.Tensor[]}
function Tensor:backward(options) end

--- Runs the backward pass from several tensors at once; see Tensor.backward.
---@param tensors torch.Tensor|torch.Tensor[]
---@param grad_tensors? torch.Tensor|torch.Tensor[]
---@param options? {retain_graph?: boolean, create_graph?: boolean, inputs?: torch.Tensor[]}
function torch.autograd.backward(tensors, grad_tensors, options) end

--- Returns the gradients of outputs with respect to inputs, as one value for each input. The field
--- `grad` of the inputs stays unchanged. An input that does not contribute to the outputs is an
--- error. With allow_unused its gradient is nil instead, and with materialize_grads zeros. Outputs
--- and inputs may be gradient edges; see torch.autograd.graph.get_gradient_edge.
---@param outputs torch.Tensor|torch.Tensor[]
---@param inputs torch.Tensor|torch.Tensor[]
---@param options? {grad_outputs?: torch.Tensor|torch.Tensor[], retain_graph?: boolean, create_graph?: boolean, allow_unused?: boolean, is_grads_batched?: boolean, materialize_grads?: boolean}
---@return torch.Tensor ...
function torch.autograd.grad(outputs, inputs, options) end

--- Sets whether the tensor requires a gradient. The tensor must be a leaf of a floating-point
--- dtype.
---@param requires_grad? boolean true unless given
---@return torch.Tensor self
function Tensor:requires_grad_(requires_grad) end

--- Makes a tensor x that is not a leaf keep its gradient in x.grad.
function Tensor:retain_grad() end

--- Registers a hook on a tensor x: fn is called with x's gradient as soon as a backward pass has
--- computed it. If fn returns a tensor, that tensor replaces the gradient. The method `remove` of
--- the returned handle removes the hook.
---
--- If fn refers to x itself, fn is collected together with x. If fn refers to another tensor
--- derived from x (a view, or a result computed from x), both tensors stay alive until the hook is
--- removed.
---@param fn fun(grad: torch.Tensor): torch.Tensor?
---@return table handle
function Tensor:register_hook(fn) end

---Turns recording off: torch.no_grad(fn, ...) calls fn without recording and returns its results;
---local _ <close> = torch.no_grad() turns it off until the end of the block.
---
--- A mode (such as no_grad, inference_mode or detect_anomaly) belongs to the coroutine that has set
--- the mode. It also applies in coroutines that this coroutine resumes, unless they have set the
--- mode themselves. A mode has no effect while its coroutine is suspended, nor after the coroutine
--- has ended, has failed or was abandoned.
---@param fn? function
---@param ... any
---@return any ...
function torch.no_grad(fn, ...) end

---Turns recording on again inside torch.no_grad, and is called in the same forms.
---@param fn? function
---@param ... any
---@return any ...
function torch.enable_grad(fn, ...) end

--- Turns the recording of gradients on or off. `fn` and its arguments have the same meaning as in
--- torch.no_grad.
---@param enabled boolean
---@param fn? function
---@param ... any
---@return any ...
function torch.set_grad_enabled(enabled, fn, ...) end

--- Turns the recording of gradients off like torch.no_grad, and is a little faster. In return, no
--- operator that records a gradient can later use the results.
---@param fn? function
---@param ... any
---@return any ...
function torch.inference_mode(fn, ...) end

--- Opens a scope for mixed precision on one kind of device. As in PyTorch, float32 arguments are
--- cast to the scope's dtype for operators that benefit from a lower precision, and arguments are
--- cast to float32 for operators that need it. The manual says for each operator to which dtype its
--- arguments are cast. The scope is opened as with torch.no_grad, but with options as the first
--- argument:
---
---    torch.autocast({device = "cuda", dtype = "bfloat16"}, function() ... end)
---    local _ <close> = torch.autocast("cpu")
---
--- Options: `device` ("cpu", "cuda", "sim"), `dtype` ("bfloat16", "float16"; by default that of the
--- enclosing scope, or else bfloat16 on the CPU and float16 on GPUs), `enabled` (false turns
--- autocast off), `cache_enabled` (unless false, a parameter is cast once until the outermost scope
--- ends). In-place operators and calls with out= are unaffected. Run backward() outside the scope.
---@param options table|string
---@param fn? function
---@param ... any
---@return any ...
function torch.autocast(options, fn, ...) end

--- Returns whether torch.autocast is on for a kind of device or, without an argument, for any kind.
---@param device? string|torch.device
---@return boolean
function torch.is_autocast_enabled(device) end

--- Returns the dtype to which autocast casts on a kind of device, even if autocast is off at
--- present.
---@param device string|torch.device
---@return string
function torch.get_autocast_dtype(device) end

--- Turns autocast on or off for a kind of device, until the next call of this function.
--- torch.autocast does so for one scope, which also ends if an error is raised.
---@param device? string|torch.device  "cuda" unless given
---@param enabled boolean
function torch.set_autocast_enabled(device, enabled) end

--- Sets the dtype to which torch.autocast casts by default on a kind of device.
---@param device string|torch.device
---@param dtype "bfloat16"|"float16"
function torch.set_autocast_dtype(device, dtype) end

--- Sets whether autocast keeps the casts of parameters for further use.
---@param enabled boolean
function torch.set_autocast_cache_enabled(enabled) end

--- Returns whether autocast keeps the casts of parameters for further use.
---@return boolean
function torch.is_autocast_cache_enabled() end

--- Releases the casts of parameters that autocast has kept.
function torch.clear_autocast_cache() end

--- Returns whether autograd records operators now.
---@return boolean
function torch.is_grad_enabled() end

--- Returns whether torch.inference_mode is active.
---@return boolean
function torch.is_inference_mode_enabled() end

--- Turns on anomaly mode: an error in a backward pass names the Lua line of the forward call, and
--- NaN in a gradient is an error. The scope is opened as with torch.no_grad.
---@param fn? function
---@param ... any
---@return any ...
function torch.autograd.detect_anomaly(fn, ...) end

---Turns anomaly mode on or off: see autograd.detect_anomaly.
---@param mode boolean
function torch.autograd.set_detect_anomaly(mode) end

--- Returns whether anomaly mode is on.
---@return boolean
function torch.autograd.is_anomaly_enabled() end

--- Registers fn, which is called once, after the running backward pass has ended without an error.
--- A hook can thus do work that needs all gradients.
---@param fn fun()
function torch.autograd.queue_callback(fn) end

-- Random numbers --------------------------------------------------------------------------------

--- Seeds the random number generator. The same seed gives the same numbers, on every device and for
--- any number of threads.
---@param seed integer
function torch.manual_seed(seed) end

---Seeds the random numbers with a seed from the system, and returns it.
---@return integer
function torch.seed() end

--- Returns the seed of the random number generator.
---@return integer
function torch.initial_seed() end

--- Returns the state of the random number generator, as plain data for torch.set_rng_state.
---@return {seed: integer, offset: integer}
function torch.get_rng_state() end

--- Restores a state returned by torch.get_rng_state.
---@param state table
function torch.set_rng_state(state) end

--- A random number generator. Its state is a seed and the number of random numbers drawn so far.
---
---     local generator = torch.Generator():manual_seed(1)
---     local a = torch.rand(2, {generator = generator})
---     generator:manual_seed(1)
---     print(a:equal(torch.rand(2, {generator = generator})))
---     --> true
---@class torch.Generator
---@field manual_seed fun(self, seed: integer): torch.Generator  restarts the numbers with this seed
---@field seed fun(self): integer  restarts the numbers with an unpredictable seed; returns the seed
---@field initial_seed fun(self): integer  the generator's seed
---@field get_state fun(self): table  returns the state, as plain data for set_state
---@field set_state fun(self, state: table): torch.Generator  continues from a state that get_state has returned

--- A collective call or message in progress, started with async_op = true.
---
---     local dist = torch.distributed
---     local store = dist.HashStore()
---     dist.init_process_group("shm", {store = store, rank = 0, world_size = 1})
---     local x = torch.ones(2)
---     local work = dist.all_reduce(x, {async_op = true})
---     work:wait()
---     print(work:is_completed(), x)
---     dist.destroy_process_group()
---     --> true	tensor([1., 1.])
---@class distributed.Work
---@field wait fun(self, timeout?: number)  waits until the call has ended; raises an error if the call has failed
---@field is_completed fun(self): boolean  whether the call has ended

--- Makes a separate random number generator, which operators take as the option `generator`. It has
--- the field `device` and the methods manual_seed, seed, initial_seed, get_state, set_state,
--- clone_state, get_offset, set_offset, graphsafe_get_state and graphsafe_set_state. An offset is
--- the number of random numbers drawn so far, rounded up to blocks of four. graphsafe_get_state
--- returns another generator that shares this generator's state. graphsafe_set_state makes this
--- generator share the state of another.
---@param device? string|torch.device|{device: string|torch.device}  "cpu" by default
---@return torch.Generator
function torch.Generator(device) end

--- The generator that the CPU uses by default.
---@type torch.Generator
torch.default_generator = nil

-- Threads and memory ----------------------------------------------------------------------------

--- Sets, for the whole process, the number of threads that an operator may use. Results do not
--- depend on this number.
---@param threads integer
function torch.set_num_threads(threads) end

--- Returns the number of threads that an operator may use.
---@return integer
function torch.get_num_threads() end

--- Calls fn, and then frees every tensor that was made in the meantime, except the tensors that fn
--- returns. This includes tensors made by coroutines that the calling coroutine resumes, unless
--- such a coroutine has its own scope. Closing a coroutine ends its scopes.
---@param fn function
---@param ... any
---@return any ...
function torch.scope(fn, ...) end

--- Returns numbers of bytes of tensor memory on the CPU: `used` by the process, `cached` for reuse,
--- and `live` in this Lua state. The table also has PyTorch's names, such as
--- "allocated_bytes.all.peak". For another device, returns that device's statistics.
---@param device? string|torch.device
---@return {used: integer, cached: integer, live: integer}
function torch.memory_stats(device) end

--- Returns the statistics of memory_stats as a text. If record_memory_history is on, the text also
--- names the lines that have allocated live tensors.
---@param device? string|torch.device
---@return string
function torch.memory_summary(device) end

--- Starts or stops recording which lines have allocated the live tensors, which takes about a
--- microsecond per tensor. While recording is on, out-of-memory messages name the lines whose
--- tensors use the most memory.
---@param on? boolean
function torch.record_memory_history(on) end

--- Returns the live tensors that were made since record_memory_history was called. Tensors of the
--- same size, dtype, line and operator form a group; the groups with the most bytes come first.
---@param device? string|torch.device
---@return {bytes: integer, count: integer, size: integer, dtype: string, line: string}[]
function torch.memory_snapshot(device) end

--- Returns the bytes that tensors use on a device, by default on the CPU.
---@param device? string|torch.device
---@return integer
function torch.memory_allocated(device) end

--- Returns the maximum of memory_allocated since reset_peak_memory_stats. On the CPU the number is
--- accurate to a few KB.
---@param device? string|torch.device
---@return integer
function torch.max_memory_allocated(device) end

--- Resets the peak to the memory in use now.
---@param device? string|torch.device
function torch.reset_peak_memory_stats(device) end

--- Gives memory that is cached for reuse back to the operating system.
function torch.memory_trim() end

--- Sets a limit, in bytes, on the memory of tensors. An allocation that would exceed the limit
--- fails. 0 means no limit.
---@param bytes integer
function torch.set_memory_limit(bytes) end

-- The library -----------------------------------------------------------------------------------

--- Sets how tensors are printed. precision is the number of digits after the decimal point. A
--- tensor with more than `threshold` elements is summarized: only `edgeitems` positions at each end
--- of a dimension are printed. linewidth is the width of a line in characters. sci_mode turns
--- scientific notation on or off; by default it is used if the numbers need it. profile is
--- "default", "short" or "full".
---@param options {precision?: integer, threshold?: integer, edgeitems?: integer, linewidth?: integer, sci_mode?: boolean, profile?: string}
function torch.set_printoptions(options) end

--- Registers a hook on a leaf: hook(self) is called whenever a backward pass has added a gradient
--- to the field `grad` of this leaf. The hook may, for example, call an optimizer's step for this
--- parameter and then set `grad` to nil at once. The method `remove` of the returned handle removes
--- the hook.
---@param hook fun(leaf: torch.Tensor)
---@return {remove: fun(self: table)}
function Tensor:register_post_accumulate_grad_hook(hook) end

--- Returns the options set by set_printoptions.
---@return {precision: integer, threshold: integer, edgeitems: integer, linewidth: integer}
function torch.get_printoptions() end

--- Sets what happens when an operator is called that is not deterministic: nothing ("default" or
--- 0), a warning ("warn" or 1) or an error ("error" or 2). On the CPU results are always bitwise
--- reproducible.
---@param mode "default"|"warn"|"error"|integer
function torch.set_deterministic_debug_mode(mode) end

--- Returns the mode that set_deterministic_debug_mode has set: 0, 1 or 2.
---@return integer mode
function torch.get_deterministic_debug_mode() end

--- Returns the configuration of the build, and the names of the libraries that were found at run
--- time.
---@return table
function torch.config() end

---Raises an error at the user's line that called the library; for modules in Lua.
---@param message string
function torch.raise(message) end
