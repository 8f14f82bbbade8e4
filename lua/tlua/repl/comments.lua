-- comments.lua - parses the comments of the library's sources and formats them for a terminal.

local M = {}

local width <const> = 80

--- Returns the lines of the comment directly above line `last`, without their dashes.
---@param lines string[]  the lines of the source
---@param last integer
---@return string[]
function M.above(lines, last)
   local first = last
   while first > 1 and lines[first - 1]:find("^%s*%-%-") do first = first - 1 end
   local comment = {}
   for i = first, last - 1 do comment[#comment + 1] = lines[i]:match("^%s*%-+%s?(.-)%s*$") end
   return comment
end

-- Wraps a text into lines. The first line is indented by `first`, all others by `others`. Two
-- spaces between a type and its text are kept unless the line ends there.
local function wrap(text, first, others)
   local lines, line, empty = {}, first, true
   for word in text:gsub("(%S)  +(%S)", "%1 \0%2"):gmatch("%S+") do
      if not empty and #line + 1 + #word > width then
         lines[#lines + 1] = line
         line, empty = others, true
      end
      line = line .. (empty and "" or " ") .. word:gsub("%z", empty and "" or " ")
      empty = false
   end
   lines[#lines + 1] = line
   return table.concat(lines, "\n")
end

--- Formats items, such as parameters, in lines that are aligned below the first item.
---@param begin string
---@param items string[]
---@param close string
---@return string
function M.list(begin, items, close)
   local lines, line = {}, begin
   for i, item in ipairs(items) do
      local piece = item .. (items[i + 1] and "," or close)
      if i > 1 and #line + 1 + #piece > width then
         lines[#lines + 1] = line
         line = "   " .. piece
      else
         line = line .. (i > 1 and " " or "") .. piece
      end
   end
   lines[#lines + 1] = #items == 0 and line .. close or line
   return table.concat(lines, "\n")
end

--- Lays out lines of text for a terminal: paragraphs, items that begin with an asterisk, and
--- indented code, which is not changed.
---@param lines string[]
---@return string
function M.layout(lines)
   local blocks, block = {}, nil
   local function add(kind, line)
      if kind == "code" and block and block.kind == "code" then
         block.text = block.text .. "\n" .. line
      elseif block and kind == "more" then
         block.text = block.text .. " " .. line
      else
         block = {kind = kind == "more" and "text" or kind, text = line, gap = block == nil}
         blocks[#blocks + 1] = block
      end
   end
   for _, line in ipairs(lines) do
      if line == "" then
         block = nil
      elseif line:find "^%* " then
         add("item", line:sub(3))
      elseif line:find "^%s%s" and not (block and block.kind == "item") then
         add("code", line)
      else
         add(block and block.kind == "code" and "text" or "more", (line:gsub("^%s+", "")))
      end
   end
   local text = ""
   for i, b in ipairs(blocks) do
      local laid = b.kind == "code" and b.text or b.kind == "item" and wrap(b.text, "* ", "  ")
         or wrap(b.text, "", "")
      text = text .. (i == 1 and "" or b.gap and "\n\n" or "\n") .. laid
   end
   return text
end

-- Tags whose text may continue in the lines after the tag.
local goes_on <const> = {param = true, field = true, ["return"] = true}

--- Splits a comment into its lines of text and its tags.
---@param comment string[]  the lines that `above` has returned
---@return string[] lines
---@return table<string, {name: string, text: string}[]> tags
function M.take(comment)
   local lines, tags, tag = {}, {}, nil
   for _, line in ipairs(comment) do
      local kind, rest = line:match "^@([%w_]+)%s*(.*)$"
      if kind then
         local name, text = rest:match "^(%S+)%s*(.*)$"
         local entry = {name = name or "", text = text or ""}
         tags[kind] = tags[kind] or {}
         table.insert(tags[kind], entry)
         tag = goes_on[kind] and entry or nil
      elseif tag and line ~= "" then
         tag.text = tag.text .. " " .. line:gsub("^%s+", "")
      else
         tag = nil
         lines[#lines + 1] = line
      end
   end
   return lines, tags
end

--- Formats tags of one kind, with their names in a column.
---@param entries? {name: string, text: string}[]
---@return string
function M.table(entries)
   local list = {}
   for i, entry in ipairs(entries or {}) do
      list[i] = wrap(entry.text, ("  %-16s "):format(entry.name), (" "):rep(19))
   end
   return table.concat(list, "\n")
end

--- Returns the first sentence of a text, or the part of that sentence before a colon or semicolon.
---@param text string
---@return string
function M.first_sentence(text)
   local flat = text:gsub("%s*\n%s*", " ")
   local first = flat:match "^(.-)%s*$"
   for last in flat:gmatch "()[.:;]%s" do
      local quotes = select(2, flat:sub(1, last):gsub('"', ""))
      if quotes % 2 == 0 then -- a full stop inside a quoted title does not end a sentence
         first = flat:sub(1, last)
         break
      end
   end
   return (first:gsub("[:;]$", "."))
end

return M
