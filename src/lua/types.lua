-- types.lua - what the binding offers beside the operators, as annotations for editors that know
-- LuaLS. The generator takes the manual's text on these functions from here. Not run.

-- Tensors ---------------------------------------------------------------------------------------

---A new tensor from a number, a boolean or tables of them, nested to any depth; from a tensor: a
---copy without history. int64 for integers, the default dtype (float32) for numbers with a point,
---bool for booleans, unless dtype is given. A ragged table is an error that says where.
---@param data number|boolean|table|torch.Tensor
---@param options? {dtype?: string, device?: string, requires_grad?: boolean}
---@return torch.Tensor
function torch.tensor(data, options) end

---The same as torch.tensor, but a tensor that already has the dtype and device is returned itself.
---@param data number|boolean|table|torch.Tensor
---@param options? {dtype?: string, device?: string}
---@return torch.Tensor
function torch.as_tensor(data, options) end

---torch.tensor with x's dtype and device unless others are given.
---@param data number|boolean|table|torch.Tensor
---@param options? {dtype?: string, device?: string, requires_grad?: boolean}
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

---The dtype of new tensors of floating-point numbers; "float32" unless it was set.
---@return string
function torch.get_default_dtype() end

---Sets the dtype of new tensors of floating-point numbers, for the whole Lua state.
---@param dtype string
function torch.set_default_dtype(dtype) end

---The device of new tensors for which none is named; "cpu" unless it was set.
---@return string
function torch.get_default_device() end

---Sets the device of new tensors for which none is named, for the calling thread.
---`tlua --device sim` does so before a script begins.
---@param device string such as "cpu", "sim" or "cuda:1"
function torch.set_default_device(device) end

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
---@param options? {grad_outputs?: torch.Tensor|torch.Tensor[], retain_graph?: boolean, create_graph?: boolean, allow_unused?: boolean}
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

---Without recording: torch.no_grad(fn, ...) calls fn and returns its results;
---local _ <close> = torch.no_grad() holds to the end of the block.
---
---Modes (this one, inference_mode, detect_anomaly) belong to the coroutine that sets them, and hold
---in those that it resumes, unless they have set their own. What a suspended coroutine has set
---concerns nobody else, and what one that has ended, failed or was abandoned had set is gone.
---@param fn? function
---@param ... any
---@return any ...
function torch.no_grad(fn, ...) end

---With recording, inside torch.no_grad; forms as there.
---@param fn? function
---@param ... any
---@return any ...
function torch.enable_grad(fn, ...) end

---With recording or without; forms as of torch.no_grad.
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
---@param device? string
---@return boolean
function torch.is_autocast_enabled(device) end

---What torch.autocast casts to on a kind of device, or would.
---@param device string
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

---A source of random numbers of its own, for the option `generator`; methods manual_seed, seed,
---initial_seed, get_state, set_state.
---@param device? string
---@return torch.Generator
function torch.Generator(device) end

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
---@param device? string
---@return {used: integer, cached: integer, live: integer}
function torch.memory_stats(device) end

---Those figures as a text, with the lines whose tensors are alive while their history is recorded.
---@param device? string
---@return string
function torch.memory_summary(device) end

---Notes from now on which line makes what is alive, or no more. It costs about a microsecond a
---tensor; messages of lacking memory then name the lines that hold most.
---@param on? boolean
function torch.record_memory_history(on) end

---What was made since record_memory_history and is alive, in groups of the same size, dtype, line
---and operator, those of the most bytes first.
---@param device? string
---@return {bytes: integer, count: integer, size: integer, dtype: string, line: string}[]
function torch.memory_snapshot(device) end

---Bytes that tensors of a device use, by default of the CPU.
---@param device? string
---@return integer
function torch.memory_allocated(device) end

---The most that memory_allocated has been since reset_peak_memory_stats; of the CPU to some KB.
---@param device? string
---@return integer
function torch.max_memory_allocated(device) end

---The peak begins anew from what is used now.
---@param device? string
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

-- Devices ---------------------------------------------------------------------------------------

---A queue of work on a device. Work of one stream is done in order; other streams' work at any
---time, unless one waits for the other. Fields: device, stream_id.
---@class torch.Stream

---A point in the work of a stream, to wait for and to measure time.
---@class torch.Event

---Work of a device that was captured, to be replayed.
---@class torch.Graph

torch.sim = torch.cuda -- the same functions, for the simulated device

---Whether there is such a device that can be used.
---@return boolean
function torch.cuda.is_available() end

---How many devices of the kind can be used.
---@return integer
function torch.cuda.device_count() end

---The number, from 0, of the device that a kind's name without a number means.
---@return integer
function torch.cuda.current_device() end

---Makes a device current, for the Lua thread that calls.
---@param device integer|string
function torch.cuda.set_device(device) end

---Makes a device current while fn runs, or without fn until the value that is returned is
---closed: local _ <close> = torch.cuda.device(1).
---@param device integer|string
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.device(device, fn, ...) end

---What the device is called.
---@param device? integer|string  the current one unless given
---@return string
function torch.cuda.get_device_name(device) end

---The compute capability; 0, 0 where there is no such thing.
---@param device? integer|string
---@return integer major, integer minor
function torch.cuda.get_device_capability(device) end

---name, total_memory, major, minor and multi_processor_count.
---@param device? integer|string
---@return table
function torch.cuda.get_device_properties(device) end

---Waits until all work of a device is done. Faults that it has found are raised here.
---@param device? integer|string
function torch.cuda.synchronize(device) end

---Whether kernels of one device can use the memory of another.
---@param device integer|string
---@param peer integer|string
---@return boolean
function torch.cuda.can_device_access_peer(device, peer) end

---The share of the device's memory that may be reserved.
---@param device? integer|string
---@return number
function torch.cuda.get_per_process_memory_fraction(device) end

---At most that share of the device's memory is reserved from now on.
---@param fraction number from 0 to 1
---@param device? integer|string
function torch.cuda.set_per_process_memory_fraction(fraction, device) end

---Where the device stands in its stream of random numbers, for set_rng_state.
---@param device? integer|string
---@return table state
function torch.cuda.get_rng_state(device) end

---The same of all devices, a list.
---@return table[]
function torch.cuda.get_rng_state_all() end

---Takes the device back, or on, to where get_rng_state was called; from then on, to the next
---torch.manual_seed, it draws from a stream of its own.
---@param state table
---@param device? integer|string
function torch.cuda.set_rng_state(state, device) end

---The same of all devices.
---@param states table[]
function torch.cuda.set_rng_state_all(states) end

---A number for a pool of memory that several graphs share.
---@return integer
function torch.cuda.graph_pool_handle() end

---Opens the devices, which their first use does otherwise.
function torch.cuda.init() end

---Whether the devices have been opened.
---@return boolean
function torch.cuda.is_initialized() end

---The seed that the device's random numbers began with.
---@param device? integer|string
---@return integer
function torch.cuda.initial_seed(device) end

---Whether kernels compute in bfloat16.
---@return boolean
function torch.cuda.is_bf16_supported() end

---Gives the current device a stream of random numbers of its own, that begins with this seed.
---Without it all devices draw from the stream of torch.manual_seed, so that a program draws the
---same numbers wherever it runs.
---@param seed integer
function torch.cuda.manual_seed(seed) end

---The same for all devices.
---@param seed integer
function torch.cuda.manual_seed_all(seed) end

---Seeds the current device by chance.
---@return integer seed
function torch.cuda.seed() end

---Seeds all devices by chance.
---@return integer seed
function torch.cuda.seed_all() end

---The sums in memory_stats (allocated and freed so far) begin at 0 again.
---@param device? integer|string
function torch.cuda.reset_accumulated_memory_stats(device) end

---The least and the most urgent priority that a stream can have.
---@return integer least, integer greatest
function torch.cuda.stream_priority_range() end

---How often the host has waited for the device so far.
---@param device? integer|string
---@return integer
function torch.cuda.waits(device) end

---A stream of a device; of streams made a few share a queue.
---@param options? {device?: integer|string, priority?: integer}
---@return torch.Stream
function torch.cuda.Stream(options) end

---The stream that work for a device is put on.
---@param device? integer|string
---@return torch.Stream
function torch.cuda.current_stream(device) end

---The stream that is current unless another was made so.
---@param device? integer|string
---@return torch.Stream
function torch.cuda.default_stream(device) end

---Makes a stream, and its device, current for the Lua thread that calls.
---@param stream torch.Stream
function torch.cuda.set_stream(stream) end

---Makes a stream, and its device, current while fn runs, or without fn until the value that is
---returned is closed.
---@param stream torch.Stream
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.stream(stream, fn, ...) end

---Whether what is put on the current stream is captured into a graph.
---@return boolean
function torch.cuda.is_current_stream_capturing() end

---A new event, which is recorded on a stream.
---@param options? {enable_timing?: boolean, blocking?: boolean}
---@return torch.Event
function torch.cuda.Event(options) end

---A new graph, empty: capture it by torch.cuda.graph, or between g:capture_begin() and
---g:capture_end() on a stream other than the default one; g:replay() runs it on the current stream.
---The tensors that it reads must live as long as it. Random numbers are the same at each replay.
---@return torch.Graph
function torch.cuda.Graph() end

---The same as Graph.
---@return torch.Graph
function torch.cuda.CUDAGraph() end

---Captures what a function puts on the device, which is recorded, not run, into a graph. It is
---captured on a stream of its own. An operator that waits for the device cannot be captured: that
---is an error, and nothing stays open.
---@param graph torch.Graph
---@param fn function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.graph(graph, fn, ...) end

---Bytes of the device's memory that tensors use.
---@param device? integer|string
---@return integer
function torch.cuda.memory_allocated(device) end

---The most that memory_allocated has been since reset_peak_memory_stats.
---@param device? integer|string
---@return integer
function torch.cuda.max_memory_allocated(device) end

---Bytes that tensors use or that are kept for reuse.
---@param device? integer|string
---@return integer
function torch.cuda.memory_reserved(device) end

---The most that memory_reserved has been since reset_peak_memory_stats.
---@param device? integer|string
---@return integer
function torch.cuda.max_memory_reserved(device) end

---Bytes of the device that are free, and all.
---@param device? integer|string
---@return integer free, integer total
function torch.cuda.mem_get_info(device) end

---All figures, by PyTorch's names, such as "allocated_bytes.all.peak".
---@param device? integer|string
---@return table<string, integer>
function torch.cuda.memory_stats(device) end

---The figures as a text for people.
---@param device? integer|string
---@return string
function torch.cuda.memory_summary(device) end

---The peaks begin anew from what is used now.
---@param device? integer|string
function torch.cuda.reset_peak_memory_stats(device) end

---What memory is made of, as PyTorch tells it: a list of segments, each with its blocks. Who has
---asked for them is there from torch.cuda.memory._record_memory_history() on.
---@return table[]
function torch.cuda.memory_snapshot() end

---memory_stats with a table for each part of a name: stats.allocated_bytes.all.peak.
---@param device? integer|string
---@return table
function torch.cuda.memory_stats_as_nested_dict(device) end

---Figures of the host's memory that devices read by themselves (pin_memory, copies with
---non_blocking): allocations and allocated_bytes of what the driver was asked for, which is kept
---and handed out again in sizes that are powers of two, active_requests and active_bytes of what
---is in use; each with current, peak, allocated and freed. num_host_alloc, num_host_free.
---@return table<string, integer>
function torch.cuda.host_memory_stats() end

---host_memory_stats with a table for each part of a name.
---@return table
function torch.cuda.host_memory_stats_as_nested_dict() end

---Begins their peaks anew.
function torch.cuda.reset_peak_host_memory_stats() end

---Begins their sums, allocated and freed, anew.
function torch.cuda.reset_accumulated_host_memory_stats() end

---Gives the memory of the host that is kept for reuse back to the driver.
function torch.cuda.empty_host_cache() end

---The same as memory_reserved.
---@param device? integer|string
---@return integer
function torch.cuda.memory_cached(device) end

---The same as max_memory_reserved.
---@param device? integer|string
---@return integer
function torch.cuda.max_memory_cached(device) end

---The same as reset_peak_memory_stats.
---@param device? integer|string
function torch.cuda.reset_max_memory_allocated(device) end

---The same as reset_peak_memory_stats.
---@param device? integer|string
function torch.cuda.reset_max_memory_cached(device) end

---Which allocator a device's memory comes from: "native".
---@return string
function torch.cuda.get_allocator_backend() end

---Does nothing: processes share no memory of devices.
function torch.cuda.ipc_collect() end

---What becomes of operators that make the host wait for a device (item, nonzero, a copy to the
---CPU; not synchronize, which says so): nothing, a warning (Lua's: `warn "@on"` shows them) or an
---error. For all kinds of devices.
---@param debug_mode "default"|"warn"|"error"|integer  or 0, 1, 2
function torch.cuda.set_sync_debug_mode(debug_mode) end

---@return integer mode 0, 1 or 2
function torch.cuda.get_sync_debug_mode() end

---How much of the time a kernel ran lately, in per cent. This and the next ones ask NVML, which
---comes with the driver; without it they are errors that say so.
---@param device? integer|string
---@return integer
function torch.cuda.utilization(device) end

---How much of the time memory was read or written lately, in per cent.
---@param device? integer|string
---@return integer
function torch.cuda.memory_usage(device) end

---Degrees Celsius.
---@param device? integer|string
---@return integer
function torch.cuda.temperature(device) end

---Milliwatts.
---@param device? integer|string
---@return integer
function torch.cuda.power_draw(device) end

---The multiprocessors' clock now, in MHz.
---@param device? integer|string
---@return integer
function torch.cuda.clock_rate(device) end

---Bytes of the device's memory that all processes use.
---@param device? integer|string
---@return integer
function torch.cuda.device_memory_used(device) end

---The processes that use a device's memory, as a text for people.
---@param device? integer|string
---@return string
function torch.cuda.list_gpu_processes(device) end

---Ranges and marks for Nsight, by NVTX, which comes with CUDA's toolkit.
torch.cuda.nvtx = {}

---Opens a range of this thread.
---@param msg string
---@return integer depth how many were open
function torch.cuda.nvtx.range_push(msg) end

---Closes the range opened last.
---@return integer depth
function torch.cuda.nvtx.range_pop() end

---Opens a range that any thread may close.
---@param msg string
---@return integer range_id
function torch.cuda.nvtx.range_start(msg) end

---@param range_id integer
function torch.cuda.nvtx.range_end(range_id) end

---@param msg string
function torch.cuda.nvtx.mark(msg) end

---A range that is open while fn runs.
---@param msg string
---@param fn function
---@param ... any arguments of fn
---@return any ... what fn returns
function torch.cuda.nvtx.range(msg, fn, ...) end

---Whether the device's matrix units take TF32.
---@return boolean
function torch.cuda.is_tf32_supported() end

---Makes the device of a tensor current while fn runs, or without fn until the value that is
---returned is closed; with a tensor of the CPU the current one stays.
---@param tensor torch.Tensor
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.device_of(tensor, fn, ...) end

---The functions about memory, and a look at what it is made of: _record_memory_history(),
---_snapshot(), and _dump_snapshot(filename), whose files https://pytorch.org/memory_viz opens.
torch.cuda.memory = {}

---The functions about random numbers.
torch.cuda.random = {}

---Gives memory that is kept for reuse back.
function torch.cuda.empty_cache() end

---Settings of the simulated device: seed, of the order in which streams are worked off; memory, in
---bytes of each device; fail_at, the n-th call from now on fails, 0: none does.
---@param settings {seed?: integer, memory?: integer, fail_at?: integer}
function torch.sim.configure(settings) end

---A copy in pinned memory, which copies with non_blocking go from and to while the host goes on;
---the tensor itself if it is there already.
---@param device? string the kind of device that it is for
---@return torch.Tensor
function Tensor:pin_memory(device) end

---Whether it lies in pinned memory.
---@return boolean
function Tensor:is_pinned() end

---Makes known that a stream other than the one it was made on uses the tensor: its memory is not
---handed out again before that stream has passed the point where it is released.
---@param stream torch.Stream
function Tensor:record_stream(stream) end

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
---closed before leaves that as it was. nil and a message if it cannot be made.
---@param path string
---@return file*?, string?
function torch.io.replace(path) end

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
---@param bytes torch.Tensor  (n) uint8, contiguous
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
