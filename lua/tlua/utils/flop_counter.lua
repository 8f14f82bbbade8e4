-- flop_counter.lua - torch.utils.flop_counter: counts the floating-point operations of a program's
-- matrix products, convolutions and attention, by operator and by module. The formulas are
-- PyTorch's (a multiplication and an addition are two operations). They are declared with the
-- operators; this module runs the profiler, which evaluates them.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

--- Counts the floating-point operations of all operators that run while the counter is on.
---
---     local counter = torch.utils.flop_counter.FlopCounterMode(function()
---        return torch.ones(2, 3):matmul(torch.ones(3, 4))
---     end)
---     print(counter:get_total_flops())
---     --> 48
---@class utils.flop_counter.FlopCounterMode
local FlopCounterMode = class.class("utils.flop_counter.FlopCounterMode")

local take = args.signature [[utils.flop_counter.FlopCounterMode(depth: count = 2,
   display: boolean = false, mods: object?)]]

function FlopCounterMode:__init(...)
   local a = take(...)
   self.depth, self.display = a.depth, a.display
   self.counts = {Global = {}}
   self.order = {"Global"}
end

-- Maps patterns of tlua's names of operators to PyTorch's names, for the operators that PyTorch's
-- counter counts. true means that the name is the same. Elementwise operators and reductions have
-- formulas as well, but are left out.
local counted <const> = {
   {"^mm$", true}, {"^bmm$", true}, {"^addmm", "addmm"}, {"^baddbmm", "baddbmm"},
   {"^linear_weight$", "mm"}, {"^linear$", "mm"}, {"^linear_", "addmm"},
   {"^conv", true}, {"_layer$", true}, {"^rnn_layer_backward$", true},
   {"^attention$", "scaled_dot_product_attention"},
   {"^attention_backward$", "scaled_dot_product_attention_backward"},
}

local function counted_as(name)
   for _, row in ipairs(counted) do
      if name:find(row[1]) then return row[2] == true and name or row[2] end
   end
   return nil
end

local function row_of(self, module)
   local row = self.counts[module]
   if not row then
      row = {}
      self.counts[module] = row
      self.order[#self.order + 1] = module
   end
   return row
end

local function add(self, module, name, flops)
   local row = row_of(self, module)
   row[name] = (row[name] or 0) + flops
end

-- Returns the module's path, such as "Sequential.1", from the name of an event, such as
-- "Sequential.1 (Linear)".
local function path_of(name)
   return name:match "^(.-) %(" or name
end

-- Adds up the operations of events by module. A derivative belongs to the module of its forward
-- call.
local function count(self, events)
   local paths, by_sequence, called = {}, {}, {}
   for i, event in events do
      local path = event.kind == "module" and path_of(event.name)
         or event.parent and paths[event.parent] or false
      if event.kind == "module" then
         called[path] = true
         -- The row is made now, so that the rows of outer modules come before the rows of the
         -- modules inside them.
         row_of(self, path)
      end
      if event.sequence then
         if event.kind == "backward" then
            path = by_sequence[event.sequence] or path
         else
            by_sequence[event.sequence] = path
         end
      end
      paths[i] = path
      local name = event.flops > 0 and counted_as(event.name)
      if name then
         local flops = math.tointeger(event.flops) or math.floor(event.flops)
         add(self, "Global", name, flops)
         while path do
            if called[path] then add(self, path, name, flops) end
            path = path:match "^(.*)%.[^.]*$" or false
         end
      end
   end
end

--- Ends the counting, and prints the table if `display` is true. A second call has no effect.
function FlopCounterMode:stop()
   local prof = self.prof
   if not prof then return end
   self.prof = nil
   prof:stop()
   count(self, prof:events())
   for i = #self.order, 2, -1 do
      if next(self.counts[self.order[i]]) == nil then
         self.counts[table.remove(self.order, i)] = nil
      end
   end
   if self.display then print(self:get_table()) end
end
FlopCounterMode.__close = FlopCounterMode.stop

--- Returns the number of all operations that were counted.
---@return integer
function FlopCounterMode:get_total_flops()
   self:_check "get_total_flops"
   local sum = 0
   for _, flops in pairs(self.counts.Global) do sum = sum + flops end
   return sum
end

--- Returns a table that maps each module's path to a table from operators to their numbers of
--- operations. The key "Global" has the totals.
---@return table<string, table<string, integer>>
function FlopCounterMode:get_flop_counts()
   self:_check "get_flop_counts"
   return self.counts
end

function FlopCounterMode:_check(who)
   if self.prof then
      torch.raise(("utils.flop_counter: %s: it still counts; call stop first"):format(who))
   end
end

local units <const> = {"", "K", "M", "B", "T"}

local function with_unit(flops)
   local value, at = flops, 1
   while value >= 1000 and at < #units do value, at = value / 1000, at + 1 end
   return at == 1 and tostring(flops) or ("%.3f%s"):format(value, units[at])
end

local function sorted_names(row)
   local names = {}
   for name in pairs(row) do names[#names + 1] = name end
   table.sort(names)
   return names
end

--- Returns a table as text, with a row for each module, down to `depth` levels below "Global".
--- Below each module's row are the rows of its operators.
---@param depth? integer  the depth, by default the counter's
---@return string
function FlopCounterMode:get_table(depth)
   self:_check "get_table"
   depth = depth or self.depth
   local total = math.max(self:get_total_flops(), 1)
   local rows = {{"Module", "FLOP", "% Total"}}
   for _, module in ipairs(self.order) do
      local level = module == "Global" and 0 or 1 + select(2, module:gsub("%.", ""))
      if level <= depth then
         local row, sum, indent = self.counts[module], 0, (" "):rep(level)
         for _, flops in pairs(row) do sum = sum + flops end
         rows[#rows + 1] = {indent .. module, with_unit(sum), ("%.2f%%"):format(sum / total * 100)}
         for _, name in ipairs(sorted_names(row)) do
            rows[#rows + 1] = {indent .. " - " .. name, with_unit(row[name]),
               ("%.2f%%"):format(row[name] / total * 100)}
         end
      end
   end
   local widths = {0, 0, 0}
   for _, row in ipairs(rows) do
      for k = 1, 3 do widths[k] = math.max(widths[k], #row[k]) end
   end
   local lines = {}
   for i, row in ipairs(rows) do
      lines[#lines + 1] = ("%-" .. widths[1] .. "s  %" .. widths[2] .. "s  %" .. widths[3] .. "s")
         :format(row[1], row[2], row[3])
      if i == 1 then
         lines[2] = ("%s  %s  %s"):format(("-"):rep(widths[1]), ("-"):rep(widths[2]),
            ("-"):rep(widths[3]))
      end
   end
   return table.concat(lines, "\n")
end

--- Counts until `stop` is called or the block of a to-be-closed variable ends. With a function,
--- counts while the function runs; the function gets the counter as its argument, and its results
--- are returned after the counter.
---
---    local counter, y = FlopCounterMode(function() return model(x) end)
---    print(counter:get_total_flops(), counter:get_table())
---
--- The counter runs the profiler, so it cannot be used inside a profile.
---@param options? {depth: integer, display: boolean, mods: table}  depth: the depth of modules in
--- the table, 2 by default; display: whether to print the table at the end, by default false (true
--- in PyTorch); mods: is accepted and ignored
---@param fn? fun(counter: utils.flop_counter.FlopCounterMode): any
---@return utils.flop_counter.FlopCounterMode counter
---@return any ...
local function open(options, fn)
   if type(options) == "function" and fn == nil then options, fn = {}, options end
   local self = FlopCounterMode(options or {})
   if fn ~= nil and not args.is_callable(fn) then
      args.refuse("utils.flop_counter.FlopCounterMode", "fn", "a function or nil", fn)
   end
   self.prof = torch.profiler.profile {
      activities = {"cpu"}, with_flops = true, with_modules = true,
   }
   if fn == nil then return self end
   local results
   do
      local _ <close> = self
      results = table.pack(fn(self))
   end
   return self, table.unpack(results, 1, results.n)
end

M.FlopCounterMode = open

return M
