-- averages.lua - sums up a profile's events, and formats the sums as a table with PyTorch's
-- columns.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local suggest = require "tlua.utils.suggest"
local text = require "tlua.profiler.text"

local M = {}

--- Sums of a profile by the names of events, or by modules.
---
---     local profile = torch.profiler.profile({}, function()
---        for _ = 1, 3 do torch.relu(torch.ones(2)) end
---     end)
---     local averages = profile:key_averages()
---     print(averages:row("relu").count, averages:row("ones").count)
---     for _, row in ipairs(averages) do assert(averages:row(row.key) == row) end
---     --> 3	3
---@class profiler.Averages
---@field total number  microseconds recorded
local Averages = class.class("profiler.Averages")

--- The sums of all events with one name.
---
---     local profile = torch.profiler.profile({}, function()
---        torch.relu(torch.ones(2))
---     end)
---     local row = profile:key_averages():row "relu"
---     print(row.key, row.kind, row.count, row.cpu_time_total > 0)
---     --> relu	operator	1	true
---@class profiler.Row
---@field key string  the events' name
---@field kind string  such as "operator", "module" or "kernel"
---@field count integer  the number of events
---@field cpu_time_total number  microseconds, including nested events
---@field self_cpu_time_total number  without nested events
---@field device_time_total number  microseconds of kernels, including those of nested events
---@field self_device_time_total number  without nested events
---@field cpu_memory_usage integer  bytes allocated minus bytes freed
---@field self_cpu_memory_usage integer  without nested events
---@field flops number  floating-point operations, as far as they are known
---@field input_shapes? string  the shapes, if rows are grouped by shapes
---@field stack? string[]  the lines, if rows are grouped by stacks

local function new_row(key, kind)
   return {
      key = key, kind = kind, count = 0, cpu_time_total = 0, self_cpu_time_total = 0,
      device_time_total = 0, self_device_time_total = 0, cpu_memory_usage = 0,
      self_cpu_memory_usage = 0, flops = 0,
   }
end

--- Returns the innermost n lines of a stack as "file(line): function".
---@param stack string
---@param n integer
---@return string[]
function M.lines_of(stack, n)
   local lines = {}
   for file, line, name in stack:gmatch "([^\t]*)\t(%d+)\t([^\n]*)\n" do
      if #lines == n then break end
      if not file:find "^tlua" then
         lines[#lines + 1] = ("%s(%s): %s"):format(file, line, name)
      end
   end
   return lines
end

local take_grouping = args.signature [[key_averages(group_by_input_shape: boolean = false,
   group_by_stack_n: count = 0)]]

---@return profiler.Averages
function M.by_name(session, ...)
   local group = take_grouping(...)
   local state = session:state()
   local rows, found, row_of, device_of, event = {}, {}, {}, {}, {}
   for i = 1, state.events do
      session:event(i, event)
      local kind, shapes, stack = event.kind, event.shapes, event.stack
      local name = kind == "step" and "ProfilerStep*" or event.name
      local key = name
      if group.group_by_input_shape then key = key .. "\0" .. shapes end
      if group.group_by_stack_n > 0 then key = key .. "\0" .. stack end
      local row = found[key]
      if not row then
         row = new_row(name, kind)
         if shapes >= 0 then row.input_shapes = session:shapes(shapes) end
         if stack >= 0 and group.group_by_stack_n > 0 then
            row.stack = M.lines_of(session:text(stack), group.group_by_stack_n)
         end
         found[key] = row
         rows[#rows + 1] = row
      end
      row_of[i] = row
      row.count = row.count + 1
      row.cpu_time_total = row.cpu_time_total + event.duration / 1e3
      row.self_cpu_time_total = row.self_cpu_time_total + (event.duration - event.inside) / 1e3
      row.cpu_memory_usage = row.cpu_memory_usage + event.bytes
      row.self_cpu_memory_usage = row.self_cpu_memory_usage + event.own_bytes
      row.flops = row.flops + event.flops
      if event.device_begin >= 0 then
         local device_time, parent = event.device_time / 1e3, event.parent
         device_of[i] = true
         row.device_time_total = row.device_time_total + device_time
         row.self_device_time_total = row.self_device_time_total + device_time
         if device_of[parent] then
            local outer = row_of[parent]
            outer.self_device_time_total = outer.self_device_time_total - device_time
         end
      end
   end
   local averages = table.move(rows, 1, #rows, 1, Averages())
   averages.total = state.duration / 1e3
   averages.shapes, averages.stacks = group.group_by_input_shape, group.group_by_stack_n > 0
   return averages
end

-- Returns a list with the module of each event, or false for events outside modules. A derivative
-- belongs to the module of its forward call.
local function modules_of_events(session, n)
   local module_of, by_sequence, event = {}, {}, {}
   for i = 1, n do
      session:event(i, event)
      local kind, parent, sequence = event.kind, event.parent, event.sequence
      local module = kind == "module" and event.name or parent > 0 and module_of[parent] or false
      if sequence > 0 then
         if kind == "backward" then
            module = by_sequence[sequence] or module
         else
            by_sequence[sequence] = module
         end
      end
      module_of[i] = module
   end
   return module_of
end

--- Returns one row for each module: `cpu_time_total` is the time of the module's forward calls,
--- `backward_time_total` the time of their derivatives; `self_...` leaves out the modules inside.
---@return profiler.Averages
function M.by_module(session)
   local state = session:state()
   local module_of = modules_of_events(session, state.events)
   local rows, found, event = {}, {}, {}
   local function row_of(name)
      local row = found[name]
      if not row then
         row = new_row(name, "module")
         row.backward_time_total = 0
         found[name] = row
         rows[#rows + 1] = row
      end
      return row
   end
   for i = 1, state.events do
      session:event(i, event)
      local kind, parent, took = event.kind, event.parent, event.duration
      local module = module_of[i]
      if module then
         local row = row_of(module)
         row.flops = row.flops + event.flops
         row.self_cpu_memory_usage = row.self_cpu_memory_usage + event.own_bytes
         if kind == "module" then
            row.count = row.count + 1
            row.cpu_time_total = row.cpu_time_total + took / 1e3
            row.cpu_memory_usage = row.cpu_memory_usage + event.bytes
         end
         local outer = kind == "backward" and not (parent > 0 and module_of[parent] == module)
         if outer then
            row.backward_time_total = row.backward_time_total + took / 1e3
         elseif not M.in_backward(session, i) then
            row.self_cpu_time_total = row.self_cpu_time_total + (took - event.inside) / 1e3
         end
      end
   end
   local averages = table.move(rows, 1, #rows, 1, Averages())
   averages.total, averages.modules = state.duration / 1e3, true
   return averages
end

--- Returns whether an event is part of a backward pass.
function M.in_backward(session, i)
   local event = {}
   while i > 0 do
      session:event(i, event)
      if event.kind == "backward" then return true end
      i = event.parent
   end
   return false
end

-- Returns the time of all devices. The device time of an operator includes the time of its kernels,
-- so kernels are counted only if no operator has a device time.
local function device_sum(self)
   local of_kernels, others = 0, 0
   for _, row in ipairs(self) do
      if row.kind == "kernel" then
         of_kernels = of_kernels + row.self_device_time_total
      else
         others = others + row.self_device_time_total
      end
   end
   return others > 0 and others or of_kernels
end

--- Iterates over the rows, one for each name or module.
---@return fun(): profiler.Row
function Averages:iter()
   local i = 0
   return function()
      i = i + 1
      return self[i]
   end
end

--- Returns the row of that name, or nil if there is none.
---@param key string  the name of an event or the path of a module
---@return profiler.Row?
function Averages:row(key)
   for _, row in ipairs(self) do
      if row.key == key then return row end
   end
end

--- Returns the sum of a field over all rows.
---@param field string
---@return number
function Averages:sum(field)
   local sum = 0
   for _, row in ipairs(self) do sum = sum + row[field] end
   return sum
end

-- The table ---------------------------------------------------------------------------------------

local sortable = {
   cpu_time = function(row) return row.cpu_time_total / math.max(row.count, 1) end,
   count = function(row) return row.count end,
}
for _, field in ipairs {"cpu_time_total", "self_cpu_time_total", "device_time_total",
   "self_device_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "flops",
   "backward_time_total"} do
   sortable[field] = function(row) return row[field] or 0 end
end

local function percent(part, whole)
   return whole > 0 and ("%.2f%%"):format(100 * part / whole) or "-"
end

local function shortened(name, width)
   if #name <= width then return name end
   return name:sub(1, width - 3) .. "..."
end

-- Returns the columns of the table that are not empty. A column is {title, a function that returns
-- the text for a row}.
local function columns_of(self, width)
   local whole = self:sum "self_cpu_time_total"
   local device = device_sum(self)
   local columns = {
      {"Name", function(row) return shortened(row.key, width) end, left = true},
      {"Self CPU %", function(row) return percent(row.self_cpu_time_total, whole) end},
      {"Self CPU", function(row) return text.time(row.self_cpu_time_total) end},
      {"CPU total %", function(row) return percent(row.cpu_time_total, whole) end},
      {"CPU total", function(row) return text.time(row.cpu_time_total) end},
      {"CPU time avg", function(row)
         return text.time(row.cpu_time_total / math.max(row.count, 1))
      end},
   }
   local function add(title, fn) columns[#columns + 1] = {title, fn} end
   if self.modules then
      add("Backward total", function(row) return text.time(row.backward_time_total) end)
   end
   if device > 0 then
      add("Self device", function(row) return text.time(row.self_device_time_total) end)
      add("Self device %", function(row) return percent(row.self_device_time_total, device) end)
      add("Device total", function(row) return text.time(row.device_time_total) end)
      add("Device time avg", function(row)
         return text.time(row.device_time_total / math.max(row.count, 1))
      end)
   end
   local memory = false
   for _, row in ipairs(self) do memory = memory or row.cpu_memory_usage ~= 0 end
   if memory then
      add("CPU Mem", function(row) return text.bytes(row.cpu_memory_usage) end)
      add("Self CPU Mem", function(row) return text.bytes(row.self_cpu_memory_usage) end)
   end
   add("# of Calls", function(row) return tostring(row.count) end)
   if self:sum "flops" > 0 then
      add("Total FLOPs", function(row) return row.flops > 0 and text.flops(row.flops) or "--" end)
   end
   if self.shapes then
      columns[#columns + 1] = {"Input Shapes", function(row)
         return row.input_shapes and "[" .. row.input_shapes .. "]" or ""
      end, left = true}
   end
   if self.stacks then
      columns[#columns + 1] = {"Source Location", function(row)
         return row.stack and table.concat(row.stack, " < ") or ""
      end, left = true}
   end
   return columns
end

local take_table = args.signature [[table(sort_by: string = 'self_cpu_time_total',
   row_limit: integer = 100, max_name_column_width: count = 55, header: string = '')]]

--- Returns the rows as a text table, the largest first. `sort_by` is one of cpu_time,
--- cpu_time_total, self_cpu_time_total, device_time_total, self_device_time_total,
--- cpu_memory_usage, self_cpu_memory_usage, flops, count; `cuda` in place of `device` is PyTorch's
--- older name.
---@param options? {sort_by: string, row_limit: integer, max_name_column_width: integer,
--- header: string}
--- sort_by: the field, "self_cpu_time_total" by default; row_limit: the largest number of rows, 100
--- by default, or -1 for all rows; max_name_column_width: the width to which names are cut, 55 by
--- default; header: a text above the table, empty by default
---@return string
function Averages:table(...)
   local a = take_table(...)
   local by = sortable[(a.sort_by:gsub("cuda", "device"))]
   if not by then
      torch.raise(("table: sort_by: unknown field %s%s"):format(a.sort_by,
         suggest.hint(a.sort_by, sortable)))
   end
   local sorted = table.move(self, 1, #self, 1, {})
   table.sort(sorted, function(x, y)
      local bx, by_y = by(x), by(y)
      if bx ~= by_y then return bx > by_y end
      return x.key < y.key
   end)
   local columns = columns_of(self, math.max(a.max_name_column_width, 4))
   local lines = {}
   for i = 1, a.row_limit < 0 and #sorted or math.min(a.row_limit, #sorted) do
      lines[i] = {}
      for c, column in ipairs(columns) do lines[i][c] = column[2](sorted[i]) end
   end
   local drawn = text.columns(columns, lines)
   if a.header ~= "" then drawn = a.header .. "\n" .. drawn end
   local device = device_sum(self)
   return drawn .. ("Self CPU time total: %s\n"):format(text.time(self:sum "self_cpu_time_total"))
      .. (device > 0 and ("Self device time total: %s\n"):format(text.time(device)) or "")
end

function Averages:__tostring() return self:table() end

return M
