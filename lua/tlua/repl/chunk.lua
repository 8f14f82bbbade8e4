-- chunk.lua - compiles lines of the interactive mode and cells of notebooks.

local M = {}

-- Appends a newline to the text, so that an unfinished string is an error in its line and does not
-- make the text look incomplete.
local function compile_as(prefix, text, name)
   local chunk, message = load(prefix .. text .. "\n", name, "t", _G)
   return chunk, message, message ~= nil and message:find "<eof>$" ~= nil
end

--- Compiles a text, first as an expression and, if that fails, as statements. An expression is
--- compiled as "return nil, expression": a call in it is then not a tail call, so an error still
--- has the user's line.
---@param text string  a leading "=" is ignored, which Lua 5.1 required for expressions
---@param name? string  the chunk's name, "=stdin" by default
---@return function|string chunk  the message of the error if it cannot be compiled
---@return "expression"|"chunk"|nil kind
---@return boolean more  whether the text is incomplete
function M.compile(text, name)
   name = name or "=stdin"
   local chunk, _, open = compile_as("return nil, ", text:gsub("^=", "", 1), name)
   if chunk then return chunk, "expression", false end
   local statements, message, unfinished = compile_as("", text, name)
   if statements then return statements, "chunk", false end
   return message, nil, open or unfinished
end

local no_beginning <const> = {["and"] = true, ["or"] = true, ["end"] = true, ["then"] = true,
   ["else"] = true, ["elseif"] = true, ["until"] = true, ["do"] = true}

-- Returns whether a line begins an expression, rather than continuing the line before it.
local function begins_expression(line)
   local word = line:match "^%s*([%a_][%w_]*)"
   return word and not no_beginning[word] or line:find "^%s*[%d#]" ~= nil
      or line:find "^%s*%.%d" ~= nil
end

--- Compiles a notebook's cell like `compile`. If the last lines are an expression, the chunk first
--- runs the statements before it and then returns its values.
---@param text string
---@param name string  the chunk's name
---@return function|string chunk
---@return "expression"|"chunk"|nil kind
---@return boolean more
function M.compile_cell(text, name)
   local chunk, kind, more = M.compile(text, name)
   if kind == "expression" then return chunk, kind, more end
   local lines = {}
   for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
   for i = #lines, 2, -1 do
      if begins_expression(lines[i]) then
         local tail = table.concat(lines, "\n", i)
         local head = table.concat(lines, "\n", 1, i - 1) .. "\n"
         if compile_as("return nil, ", tail, name) and compile_as("", head, name) then
            local both = compile_as(head .. "return nil, ", tail, name)
            if both then return both, "expression", false end
         end
      end
   end
   return chunk, kind, more
end

return M
