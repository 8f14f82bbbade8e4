-- memory.lua - torch.cuda.memory and torch.sim.memory: memory statistics, under the same names as
-- in torch.cuda and torch.sim, and snapshots of segments, blocks and the lines that allocated them,
-- in PyTorch's form.

local args = require "tlua.args"
local checked = require "tlua.checked"
local json = require "tlua.utils.json"
local pickle = require "tlua.io.pickle_writer"
local text = require "tlua.profiler.text"

local list = json.as_array

-- Returns a function that turns a stack that C has recorded ("source\tline\tname\n"...) into a list
-- of frames. Equal stacks share one list.
local function frames_by_stack()
   local made = {[""] = list {}}
   return function(stack)
      stack = stack or ""
      if not made[stack] then
         local frames = list {}
         for source, line, name in stack:gmatch "([^\t\n]*)\t(%d+)\t([^\n]*)\n" do
            frames[#frames + 1] = {filename = source, line = math.tointeger(line), name = name}
         end
         made[stack] = frames
      end
      return made[stack]
   end
end

-- Groups blocks into segments. A segment has no holes; the block after a hole begins a new segment.
local function segments_of(blocks, device, frames_of, segments)
   local segment, ends
   for _, b in ipairs(blocks) do
      if b.address ~= ends or segment.origin ~= b.segment then
         segment = {
            device = device, address = b.address, total_size = 0, allocated_size = 0,
            active_size = 0, requested_size = 0, stream = b.stream, segment_type = b.segment_type,
            segment_pool_id = setmetatable({0, b.pool}, pickle.tuple), is_expandable = true,
            blocks = list {}, frames = list {}, origin = b.segment,
         }
         segments[#segments + 1] = segment
      end
      ends = b.address + b.size
      segment.total_size = segment.total_size + b.size
      if b.state ~= "inactive" then
         segment.active_size = segment.active_size + b.size
         segment.requested_size = segment.requested_size + b.requested_size
      end
      if b.state == "active_allocated" then
         segment.allocated_size = segment.allocated_size + b.size
      end
      segment.blocks[#segment.blocks + 1] = {
         address = b.address, size = b.size, requested_size = b.requested_size, state = b.state,
         frames = frames_of(b.stack),
      }
   end
end

-- Turns recorded events into snapshots' device_traces: returns a list with one list of events for
-- each device.
local function traces_of(events, count, frames_of)
   local traces = list {}
   for i = 1, count do traces[i] = list {} end
   for _, e in ipairs(events) do
      local entry = {action = e.action, size = e.size, stream = e.stream, time_us = e.time_us,
                     frames = frames_of(e.stack)}
      if e.action == "oom" then
         entry.device_free = e.addr
      else
         entry.addr = e.addr
      end
      table.insert(traces[e.device + 1], entry)
   end
   return traces
end

local contexts <const> = {all = 3, alloc = 2, state = 1, [false] = 0}

local function recorder_of(module, kind)
   local name = kind .. ".memory._record_memory_history"
   local signature = args.signature(name .. "(enabled: any = 'all', context: any = 'all', " ..
      "stacks: string = 'all', max_entries: count = 9223372036854775807, device: any?, " ..
      "clear_history: boolean = false)")

   --- Starts recording the lines that allocate memory on these devices, for `_snapshot()`.
   ---@param enabled? "all"|"state"|boolean "all" (or true) records every event, "state" only the
   --- lines that allocated the memory in use; false stops recording
   ---@param options? table context: the events whose lines are recorded, "all", "alloc" (not those
   --- that free memory), "state" (only of memory in use) or false (none); max_entries: the number
   --- of latest events to keep; clear_history: drops earlier events; stacks, device: without effect
   return function(...)
      local a = signature(...)
      local enabled = a.enabled == true and "all" or a.enabled
      if enabled ~= "all" and enabled ~= "state" and enabled ~= false then
         args.refuse(name, "enabled", '"all", "state", true or false', a.enabled)
      end
      local depth = contexts[a.context]
      if not depth then
         args.refuse(name, "context", '"all", "alloc", "state" or false', a.context)
      end
      if a.stacks ~= "all" and a.stacks ~= "python" then
         args.refuse(name, "stacks", '"all" or "python"', a.stacks)
      end
      module._record_history(enabled ~= false, enabled == "all", depth >= 1, depth >= 3,
         a.max_entries, a.clear_history)
   end
end

local function snapshot_of(module)
   --- Returns a snapshot of memory: {segments = ..., device_traces = ...} in PyTorch's form. It has
   --- the allocating lines and the events recorded since `_record_memory_history`.
   ---@param device? integer|string|torch.device by default, the current device and all recorded
   --- devices
   ---@return table
   return function(device)
      local events, frames_of, seen = module._memory_history(), frames_by_stack(), {}
      local segments = list {}
      if device == nil then
         for _, e in ipairs(events) do seen[e.device] = true end
      end
      seen[module._device_index(device)] = true
      for i = 0, module.device_count() - 1 do
         if seen[i] then segments_of(module._memory_blocks(i), i, frames_of, segments) end
      end
      for _, segment in ipairs(segments) do segment.origin = nil end
      return {segments = segments,
              device_traces = traces_of(events, module.device_count(), frames_of)}
   end
end

local function dumper_of(kind, snapshot)
   --- Writes `_snapshot()` into a file that https://pytorch.org/memory_viz and
   --- `python -m torch.cuda._memory_viz` open.
   ---@param filename? string "dump_snapshot.pickle" without it
   return function(filename)
      filename = filename or "dump_snapshot.pickle"
      local name = kind .. ".memory._dump_snapshot"
      if type(filename) ~= "string" then
         args.refuse(name, "filename", "the name of a file", filename)
      end
      local bytes = pickle.encode(snapshot())
      text.write_file(name, filename, function(put) put(bytes) end)
   end
end

local function nested_of(stats)
   --- Returns memory_stats with a nested table for each part of a name:
   --- stats.allocated_bytes.all.peak.
   ---@param device? integer|string|torch.device
   ---@return table
   return function(...)
      local root = {}
      for path, value in pairs(stats(...)) do
         local at, last = root, nil
         for part in path:gmatch "[^.]+" do
            if last then
               at[last] = at[last] or {}
               at = at[last]
            end
            last = part
         end
         at[last] = value
      end
      return root
   end
end

local same <const> = {
   "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
   "mem_get_info", "memory_stats", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
   "empty_cache", "set_per_process_memory_fraction", "get_per_process_memory_fraction",
   "host_memory_stats", "reset_peak_host_memory_stats", "reset_accumulated_host_memory_stats",
   "empty_host_cache",
}

--- Makes torch.cuda.memory or torch.sim.memory.
---@param module table torch.cuda or torch.sim
---@param kind string "cuda" or "sim"
---@return table
return function(module, kind)
   local M = {}
   for _, name in ipairs(same) do M[name] = module[name] end
   -- these four names are deprecated in PyTorch
   M.memory_cached = module.memory_reserved
   M.max_memory_cached = module.max_memory_reserved
   M.reset_max_memory_allocated = module.reset_peak_memory_stats
   M.reset_max_memory_cached = module.reset_peak_memory_stats
   M.memory_stats_as_nested_dict = nested_of(module.memory_stats)
   M.host_memory_stats_as_nested_dict = nested_of(module.host_memory_stats)
   M._record_memory_history = recorder_of(module, kind)
   M._snapshot = snapshot_of(module)
   M._dump_snapshot = dumper_of(kind, M._snapshot)

   --- Returns the segments of `_snapshot()`.
   ---@return table[]
   function M.memory_snapshot()
      return M._snapshot().segments
   end

   --- Returns the name of a device's allocator: "native".
   ---@return string
   function M.get_allocator_backend()
      return "native"
   end

   checked.queries(M, kind .. ".memory.", "memory_snapshot get_allocator_backend")
   return M
end
