-- lists.lua - reads and checks the two lists that a decoder takes: the tokens and the lexicon.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

-- Returns the lines of a file or of a list, and a function that describes a line in error messages.
local function lines_of(title, name, value)
   if type(value) == "table" then
      for i = 1, #value do
         if type(value[i]) ~= "string" then
            args.refuse(title, ("%s[%d]"):format(name, i), "a string", value[i])
         end
      end
      return value, function(i) return ("%s[%d]"):format(name, i) end
   end
   local file <close>, why = io.open(value, "rb")
   local text = file and file:read "a"
   if not text then
      torch.raise(("%s: %s: cannot read %q: %s"):format(title, name, value, why or "not a file"))
   end
   local lines = {}
   for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
   return lines, function(i) return ("%s: %s, line %d"):format(name, value, i) end
end

--- Returns the names of tokens, and a table that maps each name to its position.
---@param title string  the function's name, for error messages
---@param value string|string[]  a file or a list
---@return string[]
---@return table<string, integer>
function M.tokens(title, value)
   local lines, place = lines_of(title, "tokens", value)
   local names, positions = {}, {}
   for i, line in ipairs(lines) do
      -- a line of a file may list several names of the same token
      local position = #names + 1
      for name in line:gmatch(type(value) == "table" and ".+" or "%S+") do
         if positions[name] then
            torch.raise(("%s: %s: the token %q is there twice"):format(title, place(i), name))
         end
         positions[name] = position
         names[position] = names[position] or name
      end
   end
   if #names == 0 then args.refuse(title, "tokens", "at least one token", value) end
   return names, positions
end

local function insert(nodes, spelling, word)
   local node = nodes[1]
   for _, token in ipairs(spelling) do
      local child = node.children[token]
      if not child then
         child = {id = #nodes + 1, children = {}, words = {}, most = -math.huge}
         nodes[#nodes + 1] = child
         node.children[token] = child
      end
      node = child
   end
   for _, known in ipairs(node.words) do
      if known == word then return end
   end
   node.words[#node.words + 1] = word
end

--- Reads a lexicon into a list of nodes, which form a tree. Each prefix of a spelling has one node.
--- The first node is the root, for the empty prefix. A node has its position `id` in the list, its
--- `children` by token, and the `words` whose spelling ends there.
---@param title string  the function's name, for error messages
---@param value string|string[]  a file or a list of lines, each a word and its spelling
---@param positions table<string, integer>  positions of tokens
---@param blank integer
---@return table[] nodes
function M.lexicon(title, value, positions, blank)
   local lines, place = lines_of(title, "lexicon", value)
   local nodes = {{id = 1, children = {}, words = {}, most = 0}}
   for i, line in ipairs(lines) do
      local word, spelling = nil, {}
      for part in line:gmatch "%S+" do
         if not word then
            word = part
         else
            local token = positions[part]
            if not token or token == blank then
               torch.raise(("%s: %s: expected a spelling of tokens for %q, got %s %q"):format(
                  title, place(i), word, token and "the blank token" or "the unknown token", part))
            end
            spelling[#spelling + 1] = token
         end
      end
      if word and #spelling == 0 then
         torch.raise(("%s: %s: expected a spelling behind %q"):format(title, place(i), word))
      end
      if word then insert(nodes, spelling, word) end
   end
   if #nodes == 1 then args.refuse(title, "lexicon", "at least one word", value) end
   return nodes
end

return M
