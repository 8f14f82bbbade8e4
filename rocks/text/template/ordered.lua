-- ordered.lua - decodes JSON into template values, whose dicts keep the order of the keys.

local json = require "tlua.utils.json"
local values = require "tlua.text.template.values"

local M = {}

local words <const> = {["true"] = true, ["false"] = false, null = values.none}

local read

-- Reads the items of an array or the entries of an object. json.decode has already checked the
-- text.
local function read_list(text, at, close, add)
   at = text:match("^[ \t\r\n]*()", at + 1)
   if text:sub(at, at) == close then return at + 1 end
   while true do
      at = add(at)
      at = text:match("^[ \t\r\n]*()", at)
      if text:sub(at, at) == close then return at + 1 end
      at = text:match("^[ \t\r\n]*()", at + 1)
   end
end

local function read_string(text, at)
   local plain, after = text:match('^"([^"\\]*)"()', at)
   if plain then return plain, after end
   local stop = at
   repeat
      stop = text:find('["\\]', stop + 1)
      local is_escape = text:byte(stop) == 92
      if is_escape then stop = stop + 1 end
   until not is_escape
   return json.decode(text:sub(at, stop)), stop + 1
end

function read(text, at)
   local c = text:sub(at, at)
   if c == "{" then
      local dict = values.dict()
      return dict, read_list(text, at, "}", function(here)
         local key, after = read_string(text, here)
         local value, last = read(text, text:match("^[ \t\r\n]*:[ \t\r\n]*()", after))
         values.put(dict, key, value)
         return last
      end)
   elseif c == "[" then
      local list = values.list {}
      return list, read_list(text, at, "]", function(here)
         local value, last = read(text, here)
         list[#list + 1] = value
         return last
      end)
   elseif c == '"' then
      return read_string(text, at)
   end
   local word, after = text:match("^([%w.+-]+)()", at)
   if words[word] ~= nil then return words[word], after end
   return json.decode(word), after
end

--- Returns the value of a JSON text, or nil and a message.
---@param text string
---@return any value
---@return string? message
function M.decode(text)
   local plain, why = json.decode(text)
   if plain == nil then return nil, why end
   return (read(text, text:match "^[ \t\r\n]*()"))
end

return M
