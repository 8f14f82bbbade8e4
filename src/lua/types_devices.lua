-- types_devices.lua - annotations of the binding's functions for devices, streams, events and
-- graphs, in the form that types.lua describes.

-- Modules ---------------------------------------------------------------------------------------

--- NVIDIA's GPUs: devices, streams, events, graphs and memory. The plugin with the kernels is loaded
--- when it is first needed; is_available() tells whether there is a GPU.
torch.cuda = {}

-- Devices ---------------------------------------------------------------------------------------

--- A device as a value, such as x.device. There is one value for each name, so that == compares
--- devices, and tostring gives the name. Functions that accept a device's name also accept this
--- value. A string never equals such a value in Lua: compare x.device.type with "cuda", or x.device
--- with torch.device "cuda:0".
---
---     local device = torch.device "cuda:1"
---     print(device.type, device.index)
---     --> cuda	1
---@class torch.device
---@field type string  "cpu", "cuda" or "sim"
---@field index integer?  from 0; nil for "cuda", which means the current device

--- Returns the device of a name, of a type and an index, or of an index, which means a CUDA device.
--- The function does not check that the machine has such a device.
---@param type string|torch.device|integer|{type: string, index?: integer} such as "cuda:1"
---@param index? integer
---@return torch.device
function torch.device(type, index) end

--- A queue of a device's work. The work is done in the order in which it was queued.
---
---     local stream = torch.sim.Stream()
---     local x = torch.ones(2, {device = "sim"})
---     stream:wait_stream(torch.sim.current_stream())
---     torch.sim.stream(stream, function() x:add_(1) end)
---     stream:synchronize()
---     print(x:cpu(), stream:query())
---     --> tensor([2., 2.])	true
---@class torch.Stream
---@field device torch.device  the device that runs its work
---@field stream_id integer  0 for the default stream
---@field priority integer  the smaller, the sooner
---@field cuda_stream integer  the stream's address in CUDA
---@field synchronize fun(self)  waits until all work of the stream is done
---@field query fun(self): boolean  whether all work of the stream is done
---@field wait_stream fun(self, stream: torch.Stream)  lets later work wait for the other's so far
---@field wait_event fun(self, event: torch.Event)  lets later work wait for an event
---@field record_event fun(self, event?: torch.Event): torch.Event  records an event, or a new one

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
---@field record fun(self, stream?: torch.Stream)  puts the event behind a stream's work so far
---@field wait fun(self, stream?: torch.Stream)  lets a stream's later work wait for the event
---@field query fun(self): boolean  whether the work before the event is done
---@field synchronize fun(self)  waits until the work before the event is done
---@field elapsed_time fun(self, stop: torch.Event): number  milliseconds from this event to another

--- Captured work of a device, which can be replayed.
---
---     local x = torch.zeros(2, {device = "sim"})
---     local graph = torch.sim.Graph()
---     torch.sim.graph(graph, function() x:add_(1) end)
---     graph:replay()
---     graph:replay()
---     print(x:cpu())
---     --> tensor([2., 2.])
---@class torch.Graph
---@field capture_begin fun(self, options?: table)  captures the work that follows instead of doing it
---@field capture_end fun(self)  ends the capture
---@field replay fun(self)  does the captured work once more
---@field pool fun(self): integer  the memory pool, for graphs that share it
---@field reset fun(self)  frees the captured work

--- The simulated device, with the functions of torch.cuda: it finds mistakes that only a GPU would
--- show, on any machine.
torch.sim = torch.cuda

--- Returns whether a device of this kind is available.
---@return boolean
function torch.cuda.is_available() end

--- Returns the number of available devices of this kind.
---@return integer
function torch.cuda.device_count() end

--- Returns the index, from 0, of the current device, which a kind's name without an index means.
---@return integer
function torch.cuda.current_device() end

--- Makes a device current for the calling Lua thread.
---@param device integer|string|torch.device
function torch.cuda.set_device(device) end

--- Makes a device current while fn runs or, without fn, until the returned value is closed: local _
--- <close> = torch.cuda.device(1).
---@param device integer|string|torch.device
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.device(device, fn, ...) end

--- Returns the name of a device.
---@param device? integer|string|torch.device  the current device by default
---@return string
function torch.cuda.get_device_name(device) end

--- Returns the compute capability; 0, 0 for devices without one.
---@param device? integer|string|torch.device
---@return integer major, integer minor
function torch.cuda.get_device_capability(device) end

--- Returns a table with name, total_memory, major, minor and multi_processor_count.
---@param device? integer|string|torch.device
---@return table
function torch.cuda.get_device_properties(device) end

--- Waits until all work of a device is done. Faults that kernels have found are raised by this
--- call.
---@param device? integer|string|torch.device
function torch.cuda.synchronize(device) end

--- Returns whether kernels of one device can use the memory of another.
---@param device integer|string|torch.device
---@param peer integer|string
---@return boolean
function torch.cuda.can_device_access_peer(device, peer) end

--- Returns the fraction of the device's memory that may be reserved.
---@param device? integer|string|torch.device
---@return number
function torch.cuda.get_per_process_memory_fraction(device) end

--- Limits the reserved memory to a fraction of the device's memory.
---@param fraction number from 0 to 1
---@param device? integer|string|torch.device
function torch.cuda.set_per_process_memory_fraction(fraction, device) end

--- Returns the state of the device's random numbers, for set_rng_state.
---@param device? integer|string|torch.device
---@return table state
function torch.cuda.get_rng_state(device) end

--- Returns a list of the states of all devices' random numbers.
---@return table[]
function torch.cuda.get_rng_state_all() end

--- Restores a state returned by get_rng_state; from then on, until the next torch.manual_seed, the
--- device uses a separate stream of random numbers.
---@param state table
---@param device? integer|string|torch.device
function torch.cuda.set_rng_state(state, device) end

--- Restores the states of all devices' random numbers.
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

--- Returns the seed of the device's random numbers.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.initial_seed(device) end

--- Returns whether the device computes in bfloat16.
---@return boolean
function torch.cuda.is_bf16_supported() end

--- Gives the current device a separate stream of random numbers, which begins with this seed. By
--- default all devices draw from the stream of torch.manual_seed, so that a program draws the same
--- numbers on any device.
---@param seed integer
function torch.cuda.manual_seed(seed) end

--- Gives each device a separate stream of random numbers, which begins with this seed.
---@param seed integer
function torch.cuda.manual_seed_all(seed) end

---Seeds the current device with an unpredictable number.
---@return integer seed
function torch.cuda.seed() end

---Seeds all devices with an unpredictable number.
---@return integer seed
function torch.cuda.seed_all() end

--- Resets the totals in memory_stats (bytes allocated and freed so far) to 0.
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

--- Wraps a stream that another library or the host program has made, given by its handle (a
--- cudaStream_t; 0 is the driver's default stream). The stream must not be destroyed while tlua
--- uses it.
---@param stream_ptr integer|lightuserdata
---@param device? integer|string|torch.device
---@return torch.Stream
function torch.cuda.ExternalStream(stream_ptr, device) end

--- Makes a stream of a device; several streams may share a queue.
---@param options? {device?: integer|string, priority?: integer}
---@return torch.Stream
function torch.cuda.Stream(options) end

--- Returns the current stream of a device.
---@param device? integer|string|torch.device
---@return torch.Stream
function torch.cuda.current_stream(device) end

--- Returns the default stream of a device, which is current initially.
---@param device? integer|string|torch.device
---@return torch.Stream
function torch.cuda.default_stream(device) end

--- Makes a stream, and its device, current for the calling Lua thread.
---@param stream torch.Stream
function torch.cuda.set_stream(stream) end

--- Makes a stream, and its device, current while fn runs or, without fn, until the returned value
--- is closed.
---@param stream torch.Stream
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.stream(stream, fn, ...) end

--- Returns whether the current stream is being captured into a graph.
---@return boolean
function torch.cuda.is_current_stream_capturing() end

--- Makes an event, to be recorded on a stream.
---@param options? {enable_timing?: boolean, blocking?: boolean}
---@return torch.Event
function torch.cuda.Event(options) end

--- Makes an empty graph. Capture it by torch.cuda.graph, or between g:capture_begin() and
--- g:capture_end() on a stream other than the default one; g:replay() runs it on the current
--- stream. The tensors that it reads must live as long as the graph. Each replay draws new random
--- numbers. If NVRTC is available, successive elementwise operators become one kernel, with bitwise
--- equal results if it has nvcc's version, see torch.backends.cuda.fusion. Intermediate results
--- that are garbage are not written at all; to find these, garbage is collected for each such kernel
--- during the capture.
---@return torch.Graph
function torch.cuda.Graph() end

--- Makes an empty graph; the same as Graph.
---@return torch.Graph
function torch.cuda.CUDAGraph() end

--- Captures the device work of a function into a graph; the work is recorded and not run. The
--- capture uses a separate stream. An operator that waits for the device cannot be captured: it
--- raises an error, which ends the capture.
---@param graph torch.Graph
---@param fn function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.graph(graph, fn, ...) end

--- Returns the bytes of the device's memory that tensors use.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_allocated(device) end

--- Returns the maximum of memory_allocated since reset_peak_memory_stats.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.max_memory_allocated(device) end

--- Returns the bytes that tensors use or that are kept for reuse.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.memory_reserved(device) end

--- Returns the maximum of memory_reserved since reset_peak_memory_stats.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.max_memory_reserved(device) end

--- Returns the free bytes and the total bytes of the device.
---@param device? integer|string|torch.device
---@return integer free, integer total
function torch.cuda.mem_get_info(device) end

--- Returns all memory statistics under PyTorch's names, such as "allocated_bytes.all.peak". There
--- are also expandable_segments, which is 1 if memory is mapped to reserved addresses on demand and
--- 0 if it is allocated in fixed segments, because the driver has no virtual memory or
--- TLUA_CUDA_ALLOCATOR asks for that; reserved_addresses, the bytes of these addresses; and
--- num_address_retries, how often fewer had to be reserved than wanted.
---@param device? integer|string|torch.device
---@return table<string, integer>
function torch.cuda.memory_stats(device) end

--- Returns the memory statistics as a text for people.
---@param device? integer|string|torch.device
---@return string
function torch.cuda.memory_summary(device) end

--- Resets the peaks to the memory in use now.
---@param device? integer|string|torch.device
function torch.cuda.reset_peak_memory_stats(device) end

--- Describes the device's memory in PyTorch's form: a list of segments, each with its blocks.
--- Blocks name their allocating lines once torch.cuda.memory._record_memory_history() was called.
---@return table[]
function torch.cuda.memory_snapshot() end

--- Returns memory_stats with a nested table for each part of a name:
--- stats.allocated_bytes.all.peak.
---@param device? integer|string|torch.device
---@return table
function torch.cuda.memory_stats_as_nested_dict(device) end

--- Returns statistics of the host's pinned memory (pin_memory, copies with non_blocking):
--- allocations and allocated_bytes count memory requested from the driver, which is kept and reused
--- in sizes that are powers of two; active_requests and active_bytes count memory in use. Each has
--- current, peak, allocated and freed. There are also num_host_alloc and num_host_free.
---@return table<string, integer>
function torch.cuda.host_memory_stats() end

--- Returns host_memory_stats with a nested table for each part of a name.
---@return table
function torch.cuda.host_memory_stats_as_nested_dict() end

---Resets the peaks of host_memory_stats to the present values.
function torch.cuda.reset_peak_host_memory_stats() end

---Resets the sums of host_memory_stats, allocated and freed, to 0.
function torch.cuda.reset_accumulated_host_memory_stats() end

--- Returns the host's pinned memory that is kept for reuse to the driver.
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

--- Does nothing. In PyTorch this function frees memory shared between processes, which tlua does
--- not have.
function torch.cuda.ipc_collect() end

--- Sets the reaction to operators that make the host wait for a device (item, nonzero, a copy to
--- the CPU; not the explicit synchronize): nothing, a warning (Lua's: `warn "@on"` shows them) or
--- an error. It applies to all kinds of devices.
---@param debug_mode "default"|"warn"|"error"|integer  or 0, 1, 2
function torch.cuda.set_sync_debug_mode(debug_mode) end

--- Returns the mode that set_sync_debug_mode has set: 0, 1 or 2.
---@return integer mode
function torch.cuda.get_sync_debug_mode() end

--- Returns the percentage of recent time in which a kernel was running. The functions about
--- utilization, temperature, power and clock rates use NVML, which is part of the driver; without
--- it they raise an error.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.utilization(device) end

--- Returns the percentage of recent time in which memory was read or written.
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

--- Returns the bytes of the device's memory that all processes use.
---@param device? integer|string|torch.device
---@return integer
function torch.cuda.device_memory_used(device) end

--- Returns the processes that use a device's memory, as a text for people.
---@param device? integer|string|torch.device
---@return string
function torch.cuda.list_gpu_processes(device) end

--- Ranges and marks for Nsight by NVTX, which is part of the CUDA toolkit.
torch.cuda.nvtx = {}

--- Opens a named range of this thread, for tools such as Nsight Systems.
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

--- Ends a range that range_start has begun.
---@param range_id integer
function torch.cuda.nvtx.range_end(range_id) end

--- Marks a point in time, with a name, in the trace of a tool such as Nsight Systems.
---@param msg string
function torch.cuda.nvtx.mark(msg) end

--- Opens a range while fn runs.
---@param msg string
---@param fn function
---@param ... any arguments of fn
---@return any ... what fn returns
function torch.cuda.nvtx.range(msg, fn, ...) end

--- Returns whether the device's matrix units support TF32.
---@return boolean
function torch.cuda.is_tf32_supported() end

--- Makes the device of a tensor current while fn runs or, without fn, until the returned value is
--- closed. A tensor on the CPU changes nothing.
---@param tensor torch.Tensor
---@param fn? function
---@param ... any  arguments of fn
---@return any ...
function torch.cuda.device_of(tensor, fn, ...) end

--- Lists the architectures for which this build's kernels are compiled, such as "sm_90"; empty
--- without a GPU.
---@return string[]
function torch.cuda.get_arch_list() end

--- Returns the index of a device: 1 for "cuda:1", the current device's index for "cuda".
---@param device? integer|string|torch.device  nil is the current device if `optional` is true
---@param options? {optional?: boolean, allow_cpu?: boolean}  allow_cpu: the CPU is -1, no error
---@return integer
function torch.cuda.get_device_index(device, options) end

--- The generators that the devices use by default.
---@type torch.Generator[]
torch.cuda.default_generators = {}

--- The functions about memory, and snapshots: _record_memory_history(), _snapshot(), and
--- _dump_snapshot(filename), whose files https://pytorch.org/memory_viz opens.
torch.cuda.memory = {}

---The functions about random numbers.
torch.cuda.random = {}

--- Returns memory that is kept for reuse to the driver.
function torch.cuda.empty_cache() end

--- Configures the simulated device: seed (of the order in which streams run), memory (bytes of each
--- device), fail_at (the n-th call from now fails; 0: none).
---@param settings {seed?: integer, memory?: integer, fail_at?: integer}
function torch.sim.configure(settings) end

--- Returns a copy in pinned memory, for copies with non_blocking, during which the host continues;
--- returns the tensor itself if it is pinned already.
---@param device? string|torch.device the kind of device that it is for
---@return torch.Tensor
function Tensor:pin_memory(device) end

--- Returns whether the tensor is in pinned memory.
---@return boolean
function Tensor:is_pinned() end

--- Records that another stream uses the tensor: after its release, its memory is not reused before
--- that stream has passed the point of the release.
---@param stream torch.Stream
function Tensor:record_stream(stream) end
