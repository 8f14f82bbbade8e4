-- Progress.lua - a bar that shows how far a loop has come and how fast it is:
--
--    local bar = torch.utils.Progress {total = #dataset, label = "epoch 1", unit = "digits"}
--    for input, target in loader:iter() do
--       ...
--       bar:step(#input, ("loss %.4f"):format(loss))
--    end
--    bar:finish "epoch 1: loss 0.1234"
--
-- The bar is drawn on a terminal only; into a file or a pipe goes nothing but finish's line.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local signature = args.signature [[utils.Progress(total: count, label: string = '',
   unit: string = 'steps', width: count = 24, stream: any?, interval: number = 0.1)]]

---@class utils.Progress
---@overload fun(options: {total: integer, label: string, unit: string}): utils.Progress
local Progress = class.class("utils.Progress")

---@param options {total: integer, label: string, unit: string, width: integer, stream: file*}
function Progress:__init(...)
   local a = signature(...)
   for name, value in pairs(a) do self[name] = value end
   self.stream = a.stream or io.stdout
   self.live = torch.io.is_terminal(self.stream)
   self.done, self.begun, self.drawn = 0, torch.io.clock(), 0
end

local function duration(seconds)
   if seconds < 99.5 then return ("%.0f s"):format(seconds) end
   if seconds < 3600 then return ("%d:%02d"):format(seconds // 60, seconds // 1 % 60) end
   return ("%d:%02d h"):format(seconds // 3600, seconds // 60 % 60)
end

--- The bar as text, without what moves the cursor.
---@param note? string
---@return string
function Progress:render(note)
   local share = self.total > 0 and math.min(self.done / self.total, 1) or 1
   local cells = share * self.width
   local full = math.floor(cells)
   local bar = ("█"):rep(full)
   if full < self.width then
      local eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}
      local part = eighths[math.floor((cells - full) * 8) + 1]
      bar = bar .. part .. ("·"):rep(self.width - full - (part == "" and 0 or 1))
   end
   local elapsed = torch.io.clock() - self.begun
   local speed = elapsed > 0 and self.done / elapsed or 0
   local parts = {("%s %s %3.0f%%"):format(self.label, bar, 100 * share)}
   if speed > 0 then
      parts[#parts + 1] = ("%.0f %s/s"):format(speed, self.unit)
      if share < 1 then
         parts[#parts + 1] = duration((self.total - self.done) / speed) .. " left"
      end
   end
   if note and note ~= "" then parts[#parts + 1] = note end
   return table.concat(parts, "  ")
end

--- Tells that some more is done.
---@param count? integer  1 by default
---@param note? string|fun(): string  shown behind the bar; a function is called only if it is drawn
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

--- Takes the bar away and writes a last line, if one is given.
---@param line? string
function Progress:finish(line)
   if self.live then self.stream:write("\r\27[K") end
   if line then self.stream:write(line, "\n") end
   self.stream:flush()
end

--- Seconds since the bar was made.
---@return number
function Progress:elapsed()
   return torch.io.clock() - self.begun
end

return Progress
