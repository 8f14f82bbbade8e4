-- template.lua - C templates: fill(text, values) returns the text with its holes filled in.
--
--    $name, ${name}   the value, a string or a number
--    $name alone on a line: a list gives a line for each item, indented like the hole
--    ?name|line       the line appears unless the value is false, nil or an empty list

local function lines_of(text)
   return (text .. "\n"):gmatch("(.-)\n")
end

local function empty(value)
   return not value or type(value) == "table" and #value == 0
end

---@param text string
---@param values table
---@return string
return function(text, values)
   local out = {}
   local function value_of(name)
      local value = values[name]
      if value == nil then error(("no value for $%s in %s"):format(name, text), 0) end
      return tostring(value)
   end
   for line in lines_of(text) do
      local condition, rest = line:match("^%?([%w_]+)|(.*)$")
      local indent, list = line:match("^( *)%$([%w_]+)$")
      if list and type(values[list]) == "table" then
         for _, item in ipairs(values[list]) do
            for part in lines_of(item) do out[#out + 1] = indent .. part end
         end
      elseif not condition or not empty(values[condition]) then
         local shown = rest or line
         out[#out + 1] = shown:gsub("%${([%w_]+)}", value_of):gsub("%$([%w_]+)", value_of)
      end
   end
   return table.concat(out, "\n")
end
