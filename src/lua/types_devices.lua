-- types_devices.lua - annotations of the binding's functions for devices, streams, events and
-- graphs, in the form that types.lua describes.

-- Modules ---------------------------------------------------------------------------------------

--- NVIDIA's GPUs: devices, streams, events, graphs and memory. A plugin contains the kernels and is
--- loaded when it is first needed. is_available() tells whether there is a GPU.
torch.cuda = {}

-- Devices ---------------------------------------------------------------------------------------

--- A device as a value, such as x.device. There is only one value for each name, so == tells
--- whether two devices are the same. tostring gives the name. Functions that accept a device's name
--- also accept this value. A device never equals a string: compare x.device.type with "cuda", or
--- x.device with torch.device "cuda:0".
---
---     local device = torch.device "cuda:1"
---     print(device.type, device.index)
---     --> cuda	1
---@class torch.device
---@field type string  "cpu", "cuda" or "sim"
---@field index integer?  from 0; nil for "cuda", which means the current device

--- Returns the device with a name, with a type and an index, or with an index alone (a CUDA
--- device). The function does not check that the machine has this device.
---@param type string|torch.device|integer|{type: string, index?: integer} such as "cuda:1"
---@param index? integer
---@return torch.device
function torch.device(type, index) end

--- A queue of work for a device. The device does the work of a stream in the order in which it was
--- queued.
---
---     local stream = torch.sim.Stream()
---     local x = torch.ones(2, {device = "sim"})
---     stream:wait_stream(torch.sim.current_stream())
---     torch.sim.stream(stream, function() x:add_(1) end)
---     stream:synchronize()
---     print(x:cpu(), stream:query())
---     --> tensor([2., 2.])	true
---@class torch.Stream
---@field device torch.device  the device that does the stream's work
---@field stream_id integer  0 for the default stream
---@field priority integer  smaller numbers are more urgent
---@field cuda_stream integer  the stream's handle in CUDA
---@field synchronize fun(self)  waits until all work of the stream is done
---@field query fun(self): boolean  whether all work of the stream is done
---@field wait_stream fun(self, stream: torch.Stream)  lets later work wait for all
--- present work of the other stream
---@field wait_event fun(self, event: torch.Event)  lets later work of the stream wait for an event
---@field record_event fun(self, event?: torch.Event): torch.Event  records the given
--- event, or a new one, on the stream

---A point in the work of a stream, which other streams can wait for and which measures time.
---
---     local stream = torch.sim.Stream()
---     local done = torch.sim.Event()
---     torch.sim.stream(stream, function()
---        torch.ones(2, {device = "sim"}):add_(1)
---        done:record()
---     end)
---     done:synchronize()
---     print(done:query())
---     --> true
---@class torch.Event
---@field record fun(self, stream?: torch.Stream)  puts the event behind all present work
--- of a stream
---@field wait fun(self, stream?: torch.Stream)  lets a stream's later work wait for the event
---@field query fun(self): boolean  whether the work before the event is done
---@field synchronize fun(self)  waits until the work before the event is done
---@field elapsed_time fun(self, stop: torch.Event): number  milliseconds from this event to another

--- Work for a device that was captured once and can be replayed any number of times.
---
---     local x = torch.zeros(2, {device = "sim"})
---     local graph = torch.sim.Graph()
---     torch.sim.graph(graph, function() x:add_(1) end)
---     graph:replay()
---     graph:replay()
---     print(x:cpu())
---     --> tensor([2., 2.])
---@class torch.Graph
---@field capture_begin fun(self, options?: table)  captures work from now on instead of doing it
---@field capture_end fun(self)  ends the capture
---@field replay fun(self)  does the captured work once more
---@field pool fun(self): integer  the graph's memory pool, which other graphs can share
---@field reset fun(self)  frees the captured work

--- The simulated device, which has the same functions as torch.cuda. It runs on any machine and
--- finds mistakes that otherwise only a GPU would show.
torch.sim = torch.cuda

--- Returns whether a device of this kind is available.
---@return boolean
function torch.cuda.is_available() end

--- Returns the number of available devices of this kind.
---@return integer
function torch.cuda.device_count() end

--- Returns the index, from 0, of the current device, which is the device that the name "cuda"
--- means.
---@return integer
function torch.cuda.current_device() end

--- Makes a device current for the calling Lua thread.
---@param device integer|string|torch.device
function torch.cuda.set_device(device) end

--- Makes a device current while fn runs. Without fn, the device is current until the returned value
--- is closed: local _ <close> = torch.cuda.device(1).
---@param device integer|string|torch.device
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.device(device, fn, ...) end

--- Returns the name of a device.
---@param device? integer|string|torch.device  the current device by default
---@return string
function torch.cuda.get_device_name(device) end

--- Returns the device's compute capability as two numbers, which are 0 and 0 if the device has
--- none.
---@param device? integer|string|torch.device
---@return integer major, integer minor
function torch.cuda.get_device_capability(device) end

--- Returns a table with name, total_memory, major, minor and multi_processor_count.
---@param device? integer|string|torch.device
---@return table
function torch.cuda.get_device_properties(device) end

--- Waits until all work of a device is done. If kernels have found faults, such as an index out of
--- range, raises an error.
---@param device? integer|string|torch.device
function torch.cuda.synchronize(device) end

--- Returns whether kernels of one device can use the memory of another.
---@param device integer|string|torch.device
---@param peer integer|string
---@return boolean
function torch.cuda.can_device_access_peer(device, peer) end

--- Returns the fraction of the device's memory that the allocator may reserve.
---@param device? integer|string|torch.device
---@return number
function torch.cuda.get_per_process_memory_fraction(device) end

--- Limits the memory that the allocator may reserve to a fraction of the device's memory.
---@param fraction number from 0 to 1
---@param device? integer|string|torch.device
function torch.cuda.set_per_process_memory_fraction(fraction, device) end

--- Returns the state of the device's random number generator, which set_rng_state can restore.
---@param device? integer|string|torch.device
---@return table state
function torch.cuda.get_rng_state(device) end

--- Returns a list of the states of all devices' random number generators.
---@return table[]
function torch.cuda.get_rng_state_all() end

--- Restores a state returned by get_rng_state. Until the next torch.manual_seed, the device then
--- draws from a separate sequence of random numbers.
---@param state table
---@param device? integer|string|torch.device
function torch.cuda.set_rng_state(state, device) end

--- Restores the states of all devices' random number generators.
---@param states table[]
function torch.cuda.set_rng_state_all(states) end

--- Returns the number of a memory pool that several graphs can share.
---@return integer
function torch.cuda.graph_pool_handle() end

---Opens the devices; otherwise their first use opens them.
function torch.cuda.init() end

--- Returns whether the devices are initialized.
---@return boolean
function torch.cuda.is_initialized() end

--- Returns the seed of the device's random number generator.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.initial_seed(device) end

--- Returns whether the device supports bfloat16.
---@return boolean
function torch.cuda.is_bf16_supported() end

--- Seeds a separate sequence of random numbers for the current device. By default all devices draw
--- from the sequence that torch.manual_seed seeds, so that a program draws the same numbers on any
--- device.
---@param seed integer  the number that determines the sequence
function torch.cuda.manual_seed(seed) end

--- Gives each device its own sequence of random numbers, and seeds all these sequences with `seed`.
---@param seed integer
function torch.cuda.manual_seed_all(seed) end

---Seeds the current device with an unpredictable number.
---@return integer seed
function torch.cuda.seed() end

---Seeds all devices with an unpredictable number.
---@return integer seed
function torch.cuda.seed_all() end

--- Resets to 0 the totals in memory_stats: the numbers of bytes allocated and freed so far.
---@param device? integer|string|torch.device
function torch.cuda.reset_accumulated_memory_stats(device) end

--- Returns the lowest and the highest priority of streams.
---@param device? integer|string|torch.device
---@return integer least, integer greatest
function torch.cuda.stream_priority_range(device) end

--- Returns the number of times that the host has waited for the device so far.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.waits(device) end

--- Wraps a stream of another library or of the host program. stream_ptr is the stream's handle, a
--- cudaStream_t (0 is the driver's default stream). The stream must not be destroyed while tlua
--- uses it.
---@param stream_ptr integer|lightuserdata
---@param device? integer|string|torch.device
---@return torch.Stream
function torch.cuda.ExternalStream(stream_ptr, device) end

--- Makes a stream of a device. Several such streams may share one queue of the device.
---@param options? {device?: integer|string, priority?: integer}
---@return torch.Stream
function torch.cuda.Stream(options) end

--- Returns the current stream of a device.
---@param device? integer|string|torch.device
---@return torch.Stream
function torch.cuda.current_stream(device) end

--- Returns the default stream of a device, which is the current stream at first.
---@param device? integer|string|torch.device
---@return torch.Stream
function torch.cuda.default_stream(device) end

--- Makes a stream and the stream's device current for the calling Lua thread.
---@param stream torch.Stream
function torch.cuda.set_stream(stream) end

--- Makes a stream and the stream's device current while fn runs or, without fn, until the returned
--- value is closed.
---@param stream torch.Stream
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.stream(stream, fn, ...) end

--- Returns whether the current stream is being captured into a graph.
---@return boolean
function torch.cuda.is_current_stream_capturing() end

--- Makes an event, which can then be recorded on a stream.
---@param options? {enable_timing?: boolean, blocking?: boolean}
---@return torch.Event
function torch.cuda.Event(options) end

--- Makes an empty graph. Capture it by torch.cuda.graph, or between g:capture_begin() and
--- g:capture_end() on a stream other than the default one; g:replay() runs it on the current
--- stream. The tensors that the graph reads must live as long as the graph. Each replay draws new
--- random numbers. If NVRTC is available, successive elementwise operators become one kernel. The
--- results are bitwise equal if NVRTC has nvcc's version; see torch.backends.cuda.fusion. Such a
--- kernel does not write intermediate results that are garbage. To find them, the capture collects
--- garbage for each such kernel.
---@return torch.Graph
function torch.cuda.Graph() end

--- Makes an empty graph; the same as Graph.
---@return torch.Graph
function torch.cuda.CUDAGraph() end

--- Captures into a graph the device work that a function queues; the work is recorded, not run. The
--- capture uses a separate stream. An operator that waits for the device cannot be captured: it
--- raises an error, which ends the capture.
---@param graph torch.Graph
---@param fn function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.graph(graph, fn, ...) end

--- Returns the number of bytes that tensors use in the device's memory.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_allocated(device) end

--- Returns the maximum of memory_allocated since reset_peak_memory_stats.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.max_memory_allocated(device) end

--- Returns the number of bytes of the device's memory that tensors use or that are kept for reuse.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_reserved(device) end

--- Returns the maximum of memory_reserved since reset_peak_memory_stats.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.max_memory_reserved(device) end

--- Returns the numbers of free bytes and of all bytes of the device's memory.
---@param device? integer|string|torch.device
---@return integer free, integer total
function torch.cuda.mem_get_info(device) end

--- Returns all memory statistics under PyTorch's names, such as "allocated_bytes.all.peak". In
--- addition, expandable_segments is 1 if memory is mapped on demand to reserved addresses; it is 0
--- if memory is allocated in fixed segments, because the driver has no virtual memory or
--- TLUA_CUDA_ALLOCATOR asks for fixed segments. reserved_addresses is the number of bytes of
--- reserved addresses. num_address_retries counts how often the reservation of addresses failed and
--- was tried again with fewer addresses.
---@param device? integer|string|torch.device
---@return table<string, integer>
function torch.cuda.memory_stats(device) end

--- Returns the memory statistics as a readable text.
---@param device? integer|string|torch.device
---@return string
function torch.cuda.memory_summary(device) end

--- Resets the peaks to the memory in use now.
---@param device? integer|string|torch.device
function torch.cuda.reset_peak_memory_stats(device) end

--- Describes the device's memory in PyTorch's form: a list of segments, each with a list of blocks.
--- After a call of torch.cuda.memory._record_memory_history(), new blocks name the line that has
--- allocated them.
---@return table[]
function torch.cuda.memory_snapshot() end

--- Returns memory_stats as nested tables, one level for each part of a name, as in
--- stats.allocated_bytes.all.peak.
---@param device? integer|string|torch.device
---@return table
function torch.cuda.memory_stats_as_nested_dict(device) end

--- Returns statistics of the host's pinned memory (pin_memory, copies with non_blocking).
--- allocations and allocated_bytes count memory requested from the driver, which is kept for reuse
--- in sizes that are powers of two; active_requests and active_bytes count memory in use. Each has
--- the fields current, peak, allocated and freed. There are also num_host_alloc and num_host_free.
---@return table<string, integer>
function torch.cuda.host_memory_stats() end

--- Returns host_memory_stats as nested tables, one level for each part of a name.
---@return table
function torch.cuda.host_memory_stats_as_nested_dict() end

---Resets the peaks of host_memory_stats to the present values.
function torch.cuda.reset_peak_host_memory_stats() end

---Resets the sums of host_memory_stats, allocated and freed, to 0.
function torch.cuda.reset_accumulated_host_memory_stats() end

--- Gives pinned host memory that is kept for reuse back to the driver.
function torch.cuda.empty_host_cache() end

--- Returns the same number as memory_reserved.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_cached(device) end

--- Returns the same number as max_memory_reserved.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.max_memory_cached(device) end

--- Resets the peaks like reset_peak_memory_stats.
---@param device? integer|string|torch.device
function torch.cuda.reset_max_memory_allocated(device) end

--- Resets the peaks like reset_peak_memory_stats.
---@param device? integer|string|torch.device
function torch.cuda.reset_max_memory_cached(device) end

--- Returns the name of a device's allocator: "native".
---@return string
function torch.cuda.get_allocator_backend() end

--- Does nothing. In PyTorch this function frees device memory that processes share; tlua does not
--- share such memory.
function torch.cuda.ipc_collect() end

--- Sets the reaction to operators that make the host wait for a device (item, nonzero, a copy to
--- the CPU; not the explicit synchronize): "default" means none, "warn" a warning (in
--- a plain Lua, `warn "@on"` shows it), and "error" an error. The mode applies to all kinds of
--- devices.
---@param debug_mode "default"|"warn"|"error"|integer  or 0, 1, 2
function torch.cuda.set_sync_debug_mode(debug_mode) end

--- Returns the mode that set_sync_debug_mode has set: 0, 1 or 2.
---@return integer mode
function torch.cuda.get_sync_debug_mode() end

--- Returns the percentage of recent time in which a kernel was running. The functions for
--- utilization, temperature, power and clock rates use NVML, a part of the driver; if NVML is
--- missing, they raise an error.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.utilization(device) end

--- Returns the percentage of recent time in which the device's memory was read or written.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_usage(device) end

--- Returns the device's temperature in degrees Celsius.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.temperature(device) end

---Milliwatts.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.power_draw(device) end

--- Returns the multiprocessors' present clock rate in MHz.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.clock_rate(device) end

--- Returns the number of bytes of the device's memory that all processes together use.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.device_memory_used(device) end

--- Returns a readable list of the processes that use a device's memory.
---@param device? integer|string|torch.device
---@return string
function torch.cuda.list_gpu_processes(device) end

--- Ranges and marks for Nsight, made by NVTX, a part of the CUDA toolkit.
torch.cuda.nvtx = {}

--- Opens a named range of this thread, for tools such as Nsight Systems.
---@param msg string
---@return integer depth  the number of ranges that were open before
function torch.cuda.nvtx.range_push(msg) end

---Closes the range opened last.
---@return integer depth
function torch.cuda.nvtx.range_pop() end

---Opens a range that any thread may close.
---@param msg string
---@return integer range_id
function torch.cuda.nvtx.range_start(msg) end

--- Ends a range that range_start has begun.
---@param range_id integer
function torch.cuda.nvtx.range_end(range_id) end

--- Marks a point in time, with a name, in the trace of a tool such as Nsight Systems.
---@param msg string
function torch.cuda.nvtx.mark(msg) end

--- Opens a range, calls fn, and closes the range.
---@param msg string
---@param fn function
---@param ... any arguments of fn
---@return any ... what fn returns
function torch.cuda.nvtx.range(msg, fn, ...) end

--- Returns whether the device's matrix units support TF32.
---@return boolean
function torch.cuda.is_tf32_supported() end

--- Makes the device of a tensor current while fn runs or, without fn, until the returned value is
--- closed. For a tensor on the CPU nothing changes.
---@param tensor torch.Tensor
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.device_of(tensor, fn, ...) end

--- Lists the architectures for which this build's kernels are compiled, such as "sm_90"; an empty
--- list without a GPU.
---@return string[]
function torch.cuda.get_arch_list() end

--- Returns the index of a device: 1 for "cuda:1", the current device's index for "cuda".
---@param device? integer|string|torch.device  nil means the current device if `optional` is true
---@param options? {optional?: boolean, allow_cpu?: boolean}  with allow_cpu the CPU has the
--- index -1; otherwise it is an error
---@return integer
function torch.cuda.get_device_index(device, options) end

--- The generators that the devices use by default.
---@type torch.Generator[]
torch.cuda.default_generators = {}

--- The functions for memory, and for snapshots: _record_memory_history(), _snapshot(), and
--- _dump_snapshot(filename), which writes a file for https://pytorch.org/memory_viz.
torch.cuda.memory = {}

---The functions about random numbers.
torch.cuda.random = {}

--- Gives memory that is kept for reuse back to the driver.
function torch.cuda.empty_cache() end

--- Configures the simulated device: seed determines the order in which streams run. memory is the
--- size of each device's memory in bytes. fail_at = n makes the n-th call from now fail; with
--- fail_at = 0 no call fails.
---@param settings {seed?: integer, memory?: integer, fail_at?: integer}
function torch.sim.configure(settings) end

--- Returns a copy in pinned memory, from which non_blocking copies do not make the host wait.
--- Returns the tensor itself if it is pinned already.
---@param device? string|torch.device the kind of device that the copies are for
---@return torch.Tensor
function Tensor:pin_memory(device) end

--- Returns whether the tensor is in pinned memory.
---@return boolean
function Tensor:is_pinned() end

--- Records that another stream uses the tensor. After the tensor is released, its memory is not
--- reused before that stream has done all work that was queued before the release.
---@param stream torch.Stream
function Tensor:record_stream(stream) end
