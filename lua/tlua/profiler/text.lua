-- text.lua - formats numbers and tables for people, and writes text files.

local torch = require "tlua"

local M = {}

--- Formats microseconds with a unit, as PyTorch does.
---@param microseconds number
---@return string
function M.time(microseconds)
   if microseconds >= 1e6 then return ("%.3fs"):format(microseconds / 1e6) end
   if microseconds >= 1e3 then return ("%.3fms"):format(microseconds / 1e3) end
   return ("%.3fus"):format(microseconds)
end

---@param bytes number
---@return string
function M.bytes(bytes)
   local size = math.abs(bytes)
   if size >= 2 ^ 30 then return ("%.2f Gb"):format(bytes / 2 ^ 30) end
   if size >= 2 ^ 20 then return ("%.2f Mb"):format(bytes / 2 ^ 20) end
   if size >= 2 ^ 10 then return ("%.2f Kb"):format(bytes / 2 ^ 10) end
   return ("%d b"):format(bytes)
end

---@param count number
---@return string
function M.flops(count)
   for _, unit in ipairs {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "K"}} do
      if count >= unit[1] then return ("%.3f %s"):format(count / unit[1], unit[2]) end
   end
   return ("%d"):format(count)
end

-- Returns the width of a text on a terminal, in characters, not counting colour codes.
local function width_of(shown)
   shown = shown:gsub("\27%[[%d;]*m", "")
   return utf8.len(shown) or #shown
end

--- Formats a table with rules around its head and at its end.
---@param columns {[1]: string, left?: boolean}[]
---@param lines string[][]
---@return string
function M.columns(columns, lines)
   local widths = {}
   for c, column in ipairs(columns) do
      widths[c] = utf8.len(column[1])
      for _, line in ipairs(lines) do
         widths[c] = math.max(widths[c], width_of(line[c]))
      end
   end
   local function draw(cells)
      local parts = {}
      for c, cell in ipairs(cells) do
         local pad = (" "):rep(widths[c] - width_of(cell))
         parts[c] = columns[c].left and cell .. pad or pad .. cell
      end
      return (table.concat(parts, "  "):gsub("%s+$", ""))
   end
   local rules, heads = {}, {}
   for c, column in ipairs(columns) do
      rules[c], heads[c] = ("-"):rep(widths[c]), column[1]
   end
   local rule = draw(rules)
   local out = {rule, draw(heads), rule}
   for _, line in ipairs(lines) do out[#out + 1] = draw(line) end
   out[#out + 1] = rule
   return table.concat(out, "\n") .. "\n"
end

--- Writes a file: write(put) calls put(text) any number of times. A reader of the file sees the old
--- content or the new content, never a part. If writing fails, the error has the name `who` and the
--- system's message.
---@param who string
---@param path string
---@param write fun(put: fun(text: string))
function M.write_file(who, path, write)
   if type(path) ~= "string" or path == "" then
      torch.raise(("%s: path: expected the name of a file"):format(who))
   end
   local function once()
      local file <close>, message = torch.io.replace(path)
      if not file then return message end
      local buffer, size, failure = {}, 0, nil
      local function flush()
         local done, why = file:write(table.concat(buffer))
         if not done then failure = failure or why end
         buffer, size = {}, 0
      end
      write(function(piece)
         buffer[#buffer + 1] = piece
         size = size + #piece
         if size > 65536 and not failure then flush() end
      end)
      flush()
      if failure then return failure end
      local done, why, again = torch.io.commit(file)
      if not done then return why, again end
   end
   local failure, again = once()
   if again then failure = once() end
   if failure then torch.raise(("%s: %s: %s"):format(who, path, failure)) end
end

return M
