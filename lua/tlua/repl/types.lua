-- types.lua - parses LuaLS types and tags: the text of a doc comment after `---@param`.

local M = {}

local opens <const> = {
   ["("] = 1, ["{"] = 1, ["["] = 1, ["<"] = 1, [")"] = -1, ["}"] = -1, ["]"] = -1, [">"] = -1,
}

--- Splits the text of a tag into a type and the words that follow the type.
---@param text string  "fun(x: Tensor): Tensor  of each batch"
---@return string type
---@return string words
function M.split(text)
   local depth, i, quoted = 0, 1, false
   while i <= #text do
      local c = text:sub(i, i)
      if c == '"' then
         quoted = not quoted
      elseif not quoted then
         depth = depth + (opens[c] or 0)
         if depth == 0 and c:find "%s" then
            local before, after = text:sub(1, i - 1), text:sub(i):match "^%s*(.*)$"
            -- three dots after the type mean several values
            local rest = after:match "^%.%.%.%s*(.*)$"
            if rest and before:find "[%w_]$" then return before .. " ...", rest end
            if not before:find "[|,:]$" and not after:find "^|" then return before, after end
         end
      end
      i = i + 1
   end
   return text, ""
end

-- Splits a text at the commas that are outside brackets.
local function pieces(text)
   local list, depth, from = {}, 0, 1
   for i = 1, #text do
      local c = text:sub(i, i)
      depth = depth + (opens[c] or 0)
      if c == "," and depth == 0 then
         list[#list + 1] = text:sub(from, i - 1)
         from = i + 1
      end
   end
   list[#list + 1] = text:sub(from)
   return list
end

--- Returns the fields of a table type; nil for other types.
---@param type string  "{bias: boolean, dtype?: string}"
---@return {name: string, type: string}[]?
function M.fields(type)
   local inner = type:match "^{(.*)}$"
   if not inner then return nil end
   local list = {}
   for _, piece in ipairs(pieces(inner)) do
      local name, kind = piece:match "^%s*([%w_]+)%??:%s*(.-)%s*$"
      if name then list[#list + 1] = {name = name, type = kind, optional = true} end
   end
   return list[1] and list or nil
end

-- Maps types of args.signature to LuaLS's types.
local of_signature = {
   count = "integer", dim = "integer", layers = "integer", integers = "integer|integer[]",
   numbers = "number[]", tensor = "Tensor", callable = "function", object = "table",
   device = "string|torch.device", names = "table", factor = "number",
}

--- Returns the type of a parameter that args.signature has declared.
---@param kinds string  "number|numbers?"
---@return string
function M.of_signature(kinds)
   return (kinds:gsub("%?$", ""):gsub("[%w_]+", of_signature))
end

return M
