-- types_devices.lua - what the binding offers for devices, streams, events and graphs; see types.lua.

-- Devices ---------------------------------------------------------------------------------------

---A device as a value, such as x.device. It is one value for each name, so that == compares
---devices, and tostring gives the name. Whatever takes a device's name takes it, too. Lua never
---finds a string equal to such a value: compare x.device.type with "cuda", or x.device with
---torch.device "cuda:0".
---@class torch.device
---@field type string  "cpu", "cuda" or "sim"
---@field index integer?  from 0; nil for "cuda", which is the current device

---The device of a name, of a type and a number, or of a number, which is a CUDA device's. Whether
---the machine has such a device is not asked.
---@param type string|torch.device|integer|{type: string, index?: integer} such as "cuda:1"
---@param index? integer
---@return torch.device
function torch.device(type, index) end

---A queue of work on a device. Work of one stream is done in order; other streams' work at any
---time, unless one waits for the other. Fields: device, stream_id, priority, and on a GPU
---cuda_stream, its handle as an integer, for other libraries.
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
---@param device integer|string|torch.device
function torch.cuda.set_device(device) end

---Makes a device current while fn runs, or without fn until the value that is returned is
---closed: local _ <close> = torch.cuda.device(1).
---@param device integer|string|torch.device
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.device(device, fn, ...) end

---What the device is called.
---@param device? integer|string|torch.device  the current one unless given
---@return string
function torch.cuda.get_device_name(device) end

---The compute capability; 0, 0 where there is no such thing.
---@param device? integer|string|torch.device
---@return integer major, integer minor
function torch.cuda.get_device_capability(device) end

---name, total_memory, major, minor and multi_processor_count.
---@param device? integer|string|torch.device
---@return table
function torch.cuda.get_device_properties(device) end

---Waits until all work of a device is done. Faults that it has found are raised here.
---@param device? integer|string|torch.device
function torch.cuda.synchronize(device) end

---Whether kernels of one device can use the memory of another.
---@param device integer|string|torch.device
---@param peer integer|string
---@return boolean
function torch.cuda.can_device_access_peer(device, peer) end

---The share of the device's memory that may be reserved.
---@param device? integer|string|torch.device
---@return number
function torch.cuda.get_per_process_memory_fraction(device) end

---At most that share of the device's memory is reserved from now on.
---@param fraction number from 0 to 1
---@param device? integer|string|torch.device
function torch.cuda.set_per_process_memory_fraction(fraction, device) end

---Where the device stands in its stream of random numbers, for set_rng_state.
---@param device? integer|string|torch.device
---@return table state
function torch.cuda.get_rng_state(device) end

---The same of all devices, a list.
---@return table[]
function torch.cuda.get_rng_state_all() end

---Takes the device back, or on, to where get_rng_state was called; from then on, to the next
---torch.manual_seed, it draws from a stream of its own.
---@param state table
---@param device? integer|string|torch.device
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
---@param device? integer|string|torch.device
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
---@param device? integer|string|torch.device
function torch.cuda.reset_accumulated_memory_stats(device) end

---The least and the most urgent priority that a stream can have.
---@return integer least, integer greatest
function torch.cuda.stream_priority_range() end

---How often the host has waited for the device so far.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.waits(device) end

---A stream that another library or the host program has made, by its handle (a cudaStream_t; 0 is
---the driver's default stream). It must stay as long as it is used here.
---@param stream_ptr integer|lightuserdata
---@param device? integer|string|torch.device
---@return torch.Stream
function torch.cuda.ExternalStream(stream_ptr, device) end

---A stream of a device; of streams made a few share a queue.
---@param options? {device?: integer|string, priority?: integer}
---@return torch.Stream
function torch.cuda.Stream(options) end

---The stream that work for a device is put on.
---@param device? integer|string|torch.device
---@return torch.Stream
function torch.cuda.current_stream(device) end

---The stream that is current unless another was made so.
---@param device? integer|string|torch.device
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
---The tensors that it reads must live as long as it. Random numbers are drawn anew at each
---replay. Where NVRTC is, elementwise operators in a row become one kernel, with the same bits, see
---torch.backends.cuda.fusion.enabled. What lies between them and nobody has any more is not written at all;
---to know it, garbage is collected for each such kernel while the graph is captured.
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
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_allocated(device) end

---The most that memory_allocated has been since reset_peak_memory_stats.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.max_memory_allocated(device) end

---Bytes that tensors use or that are kept for reuse.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_reserved(device) end

---The most that memory_reserved has been since reset_peak_memory_stats.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.max_memory_reserved(device) end

---Bytes of the device that are free, and all.
---@param device? integer|string|torch.device
---@return integer free, integer total
function torch.cuda.mem_get_info(device) end

---All figures, by PyTorch's names, such as "allocated_bytes.all.peak".
---@param device? integer|string|torch.device
---@return table<string, integer>
function torch.cuda.memory_stats(device) end

---The figures as a text for people.
---@param device? integer|string|torch.device
---@return string
function torch.cuda.memory_summary(device) end

---The peaks begin anew from what is used now.
---@param device? integer|string|torch.device
function torch.cuda.reset_peak_memory_stats(device) end

---What memory is made of, as PyTorch tells it: a list of segments, each with its blocks. Who has
---asked for them is there from torch.cuda.memory._record_memory_history() on.
---@return table[]
function torch.cuda.memory_snapshot() end

---memory_stats with a table for each part of a name: stats.allocated_bytes.all.peak.
---@param device? integer|string|torch.device
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
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_cached(device) end

---The same as max_memory_reserved.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.max_memory_cached(device) end

---The same as reset_peak_memory_stats.
---@param device? integer|string|torch.device
function torch.cuda.reset_max_memory_allocated(device) end

---The same as reset_peak_memory_stats.
---@param device? integer|string|torch.device
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
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.utilization(device) end

---How much of the time memory was read or written lately, in per cent.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_usage(device) end

---Degrees Celsius.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.temperature(device) end

---Milliwatts.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.power_draw(device) end

---The multiprocessors' clock now, in MHz.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.clock_rate(device) end

---Bytes of the device's memory that all processes use.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.device_memory_used(device) end

---The processes that use a device's memory, as a text for people.
---@param device? integer|string|torch.device
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

---What the kernels of this build are compiled for, as in "sm_90"; empty where there is no GPU.
---@return string[]
function torch.cuda.get_arch_list() end

---The number of a device: of "cuda:1" 1, of "cuda" the current one's.
---@param device? integer|string|torch.device  nil is the current one where optional is true
---@param options? {optional?: boolean, allow_cpu?: boolean}  allow_cpu: the CPU is -1, no error
---@return integer
function torch.cuda.get_device_index(device, options) end

---What each device draws random numbers from unless another generator is named.
---@type torch.Generator[]
torch.cuda.default_generators = {}

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
---@param device? string|torch.device the kind of device that it is for
---@return torch.Tensor
function Tensor:pin_memory(device) end

---Whether it lies in pinned memory.
---@return boolean
function Tensor:is_pinned() end

---Makes known that a stream other than the one it was made on uses the tensor: its memory is not
---handed out again before that stream has passed the point where it is released.
---@param stream torch.Stream
function Tensor:record_stream(stream) end
