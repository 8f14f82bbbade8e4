-- Progress.lua - shows how much of a loop is done, and how fast it runs:
--
--    local bar = torch.utils.Progress {total = #dataset, label = "epoch 1", unit = "digits"}
--    for input, target in loader:iter() do
--       ...
--       bar:step(#input, ("loss %.4f"):format(loss))
--    end
--    bar:finish "epoch 1: loss 0.1234"
--
-- or, if `each` counts the steps of the loop:
--
--    local bar = torch.utils.Progress {label = "epoch 1"}
--    for input, target in bar:each(loader) do
--       ...
--       bar:set {loss = loss:item()}
--    end
--
-- The bar is drawn only on a terminal and in a notebook; a file or a pipe gets only the line of
-- `finish`.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local signature = args.signature [[utils.Progress(total: count?, label: string = '',
   unit: string = 'steps', width: count = 24, stream: any?, interval: number = 0.1)]]

---     local stream = io.tmpfile() -- io.stdout unless given
---     local progress = torch.utils.Progress {total = 2, stream = stream}
---     for _ = 1, 2 do progress:step() end
---     progress:finish "two steps"
---     stream:seek("set")
---     print(progress.done, stream:read())
---     --> 2	two steps
---@class utils.Progress
---@overload fun(options: {total: integer, label: string, unit: string}): utils.Progress
local Progress = class.class("utils.Progress")

---@param options? {total: integer, label: string, unit: string, width: integer, stream: file*,
--- interval: number}
--- total: the number of steps, unknown by default; label: empty by default; unit: "steps" by
--- default; width: the bar's columns, 24 by default; stream: the standard output, or the notebook,
--- by default; interval: the least time between two drawings, 0.1 s by default
function Progress:__init(...)
   local a = signature(...)
   for name, value in pairs(a) do self[name] = value end
   -- In a notebook, a bar without a given stream is shown as an output of the cell that is updated
   -- in place.
   local shown = not a.stream and rawget(torch, "_notebook_stream")
   local output = shown and shown()
   self.stream = output or a.stream or io.stdout
   self.live = output and true or torch.io.is_terminal(self.stream)
   self.done, self.begun, self.drawn, self.values = 0, torch.io.clock(), 0, {}
end

local function duration(seconds)
   if seconds < 99.5 then return ("%.0f s"):format(seconds) end
   if seconds < 3600 then return ("%d:%02d"):format(seconds // 60, seconds // 1 % 60) end
   return ("%d:%02d h"):format(seconds // 3600, seconds // 60 % 60)
end

-- Formats a speed in units per second or, if the speed is below 1, as the time for each unit.
local function rate(speed, unit)
   if speed >= 9.95 then return ("%.0f %s/s"):format(speed, unit) end
   if speed >= 1 then return ("%.1f %s/s"):format(speed, unit) end
   return ("%s for each of the %s"):format(duration(1 / speed), unit)
end

-- Formats the values that were set, sorted by name: "loss 0.1234, rate 0.01".
local function values_text(values)
   local list = {}
   for name, value in pairs(values) do
      local text = math.type(value) == "float" and ("%.4g"):format(value) or tostring(value)
      list[#list + 1] = name .. " " .. text
   end
   table.sort(list)
   return table.concat(list, ", ")
end

-- Returns the label and the bar as text. If the total is unknown, the number of steps so far
-- replaces the bar.
local function measure(self, share)
   local label = self.label == "" and "" or self.label .. " "
   if not self.total then return ("%s%d %s"):format(label, self.done, self.unit) end
   local cells = share * self.width
   local full = math.floor(cells)
   local bar = ("█"):rep(full)
   if full < self.width then
      local eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}
      local part = eighths[math.floor((cells - full) * 8) + 1]
      bar = bar .. part .. ("·"):rep(self.width - full - (part == "" and 0 or 1))
   end
   return ("%s%s %3.0f%%"):format(label, bar, 100 * share)
end

--- Returns the bar as text, without the codes that move the cursor.
---@param note? string
---@return string
function Progress:render(note)
   local total = self.total or 0
   local share = total > 0 and math.min(self.done / total, 1) or 1
   local elapsed = self:elapsed()
   local speed = elapsed > 0 and self.done / elapsed or 0
   local parts = {measure(self, share)}
   if speed > 0 then
      parts[#parts + 1] = rate(speed, self.unit)
      if share < 1 then
         parts[#parts + 1] = duration((self.total - self.done) / speed) .. " left"
      end
   end
   if next(self.values) then parts[#parts + 1] = values_text(self.values) end
   if note and note ~= "" then parts[#parts + 1] = note end
   return table.concat(parts, "  ")
end

--- Records that more steps are done, and redraws the bar if enough time has passed since it was
--- last drawn.
---@param count? integer  1 by default
---@param note? string|fun(): string  a text to be shown behind the bar; a function is called for
--- the text only when the bar is drawn
function Progress:step(count, note)
   self.done = self.done + (count or 1)
   if not self.live then return end
   local now = torch.io.clock()
   if now - self.drawn < self.interval then return end
   self.drawn = now
   if type(note) == "function" then note = note() end
   self.stream:write("\r\27[K", self:render(note))
   self.stream:flush()
end

--- Sets values that are shown behind the bar from now on.
---@param values table<string, number|string>
---@return utils.Progress self
function Progress:set(values)
   if type(values) ~= "table" then
      args.refuse("utils.Progress.set", "values", "a table of values by name", values)
   end
   for name, value in pairs(values) do self.values[tostring(name)] = value end
   return self
end

-- Returns an iterator over `what`, and the number of its steps if it is known.
local function iterate(what)
   if math.type(what) == "integer" and what >= 0 then
      local i = 0
      return function()
         i = i + 1
         return i <= what and i or nil
      end, what
   elseif type(what) == "function" then
      return what
   elseif type(what) == "table" and type(what.iter) == "function" then
      local ok, n = pcall(function() return #what end)
      return what:iter(), ok and n or nil
   elseif type(what) == "table" then
      local i = 0
      return function()
         i = i + 1
         if what[i] ~= nil then return i, what[i] end
      end, #what
   end
   args.refuse("utils.Progress.each", "what",
      "a number of steps, a list, a loader or an iterator", what)
end

--- Iterates over the integers from 1 to `what`, the positions and items of a list, the batches of a
--- loader, or the values of an iterator. Each iteration is one step. The bar is removed at the end.
---@param what integer|any[]|data.DataLoader|function
---@return fun(): any ...
function Progress:each(what)
   local step, total = iterate(what)
   self.total = self.total or total
   local first = true
   local function advance(...)
      if not first then self:step() end
      first = false
      if ... == nil then self:finish() end
      return ...
   end
   return function() return advance(step()) end
end

--- Removes the bar and writes a last line, if `line` is given. In a notebook, the bar stays if no
--- line is given.
---@param line? string
function Progress:finish(line)
   if self.live then
      self.stream:write("\r\27[K", not line and self.stream.keeps_bar and self:render() or "")
   end
   if line then self.stream:write(line, "\n") end
   self.stream:flush()
end

--- Returns the seconds since the bar was made.
---@return number
function Progress:elapsed()
   return torch.io.clock() - self.begun
end

return Progress
