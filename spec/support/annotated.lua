-- annotated.lua - reads the annotations for editors, and checks programs against them: the names in tables below torch,
-- the names of methods, and the options in calls.

local M = {}

-- Adds to a set the names of parameters and options in an annotation, such as "fun(params: any, options?: {lr?:
-- number})".
local function add_names(set, text)
   for name in text:gsub('"[^"]*"', ""):gmatch "([%a_][%w_]*)%??%s*:" do set[name] = true end
end

--- Returns the names that annotations declare. `paths` has tables, classes, functions and constants by path, each with
--- its options. `members` has the names of all methods and fields.
---@param text string
---@return {paths: table<string, table>, members: table<string, true>}
function M.read(text)
   local paths, members, names, is_class = {torch = {is_table = true}}, {}, {}, false
   for line in text:gmatch "[^\n]+" do
      is_class = is_class or line:find "^%-%-%-@class " ~= nil
      local field = line:match "^%-%-%-@field ([%a_][%w_]*)"
      local owner, separator, name = line:match "^function ([%w_.]-)([.:])([%w_]+)%("
      local value, is_table = line:match "^(torch[%w_.]*) = (%S+)"
      if field then members[field] = true end
      if line:find "^%-%-%-@param " or line:find "^%-%-%-@overload " then
         local parameter = line:match "^%-%-%-@param ([%a_][%w_]*)"
         if parameter then names[parameter] = true end
         add_names(names, line:match "^%-%-%-@%a+ (.*)$")
      end
      if name == nil and value then
         paths[value] = paths[is_table] or {is_table = is_table == "{}", options = names, is_class = is_class}
         if value:find "^torch%.Tensor%." and paths[is_table] then members[value:match "[^.]+$"] = true end
      elseif name then
         local entry = {options = names}
         if separator == ":" then members[name] = true else paths[owner .. "." .. name] = entry end
         if owner == "torch.Tensor" then paths["torch.Tensor." .. name] = entry end
      end
      if not line:find "^%-%-%-" then names, is_class = {}, false end
   end
   return {paths = paths, members = members}
end

-- Replaces comments and the contents of strings by spaces, which keeps the positions of all other text.
local function plain(source)
   local function blank(text) return (text:gsub("[^\n]", " ")) end
   local out, at = {}, 1
   while at <= #source do
      local rest = source:sub(at, at + 1)
      local stop
      if rest == "--" then
         local level = source:match("^%-%-%[(=*)%[", at)
         stop = level and select(2, source:find("]" .. level .. "]", at, true))
            or (source:find("\n", at, true) or #source + 1) - 1
         out[#out + 1] = blank(source:sub(at, stop))
      elseif source:match("^%[=*%[", at) then
         local level = source:match("^%[(=*)%[", at)
         stop = select(2, source:find("]" .. level .. "]", at, true)) or #source
         out[#out + 1] = '"' .. blank(source:sub(at + 1, stop - 1)) .. '"'
      elseif rest:find "^[\"']" then
         local quote = rest:sub(1, 1)
         stop = at + 1
         while stop < #source and source:sub(stop, stop) ~= quote do
            stop = stop + (source:sub(stop, stop) == "\\" and 2 or 1)
         end
         out[#out + 1] = '"' .. blank(source:sub(at + 1, stop - 1)) .. '"'
      else
         stop = at
         out[#out + 1] = source:sub(at, at)
      end
      at = stop + 1
   end
   return table.concat(out)
end

-- Returns the local variables that stand for a path, as in `local nn, F = torch.nn, torch.nn.functional`.
local function aliases_in(code)
   local found = {torch = "torch"}
   for left, right, after in code:gmatch "local%s+([%w_,%s]-)%s*=%s*([%w_.,%s]+)(.?)" do
      -- the text before a call or an index is not a path
      if after:find "[%[%(:]" then right = right:gsub("[%w_.]+%s*$", "") end
      local values = {}
      for value in right:gmatch "[^,]+" do values[#values + 1] = value:match "^%s*([%w_.]+)" or "" end
      local i = 0
      for name in left:gmatch "[%w_]+" do
         i = i + 1
         local root, rest = (values[i] or ""):match "^([%w_]+)(.*)$"
         if root and found[root] and name ~= "torch" then found[name] = found[root] .. rest end
      end
   end
   return found
end

-- Returns the keys of the options in a call: the top-level keys of the table that is the last argument.
local function keys_in(arguments)
   local last = arguments:match "^{.*}$" or arguments:match "^%(.*(%b{})%s*%)$"
   local keys = {}
   for key in (last or ""):sub(2, -2):gsub("%b{}", ""):gsub("%b()", "")
      :gmatch "%f[%w_]([%a_][%w_]*)%s*=%f[^=]" do keys[#keys + 1] = key end
   return keys
end

-- Returns the methods that a program defines itself, and the methods of strings and files.
local function own_members(code)
   local own = {}
   for name in code:gmatch "function%s+[%w_.]+[.:]([%w_]+)" do own[name] = true end
   for name in code:gmatch "%f[%w_]([%a_][%w_]*)%s*=%s*function" do own[name] = true end
   for name in pairs(string) do own[name] = true end
   for name in ("read write lines close seek setvbuf flush"):gmatch "%a+" do own[name] = true end
   return own
end

--- Returns the unknown names in a program. Each is a text with the line number.
---@param known table  the names that `read` returned
---@param source string
---@param beside string  other programs whose methods the program may call
---@param foreign? table<string, boolean>  the variables whose methods belong to another program that runs this one
---@return string[]
function M.check(known, source, beside, foreign)
   local code, problems = plain(source), {}
   local aliases, own = aliases_in(code), own_members(source .. beside)
   local function report(at, text)
      local line = select(2, code:sub(1, at):gsub("\n", "")) + 1
      problems[#problems + 1] = ("%d: %s"):format(line, text)
   end
   for at, chain, after in code:gmatch "%f[%w_.:]()([%a_][%w_.]*)()" do
      local root, rest = chain:match "^([%w_]+)(.*)$"
      local path = aliases[root]
      local entry = path and known.paths[path]
      for part in (entry and rest or ""):gmatch "[%w_]+" do
         if not entry.is_table or entry.is_class or part:find "^_" then break end
         path = path .. "." .. part
         entry = known.paths[path]
         if not entry then
            report(at, path)
            break
         end
      end
      local arguments = entry and (code:match("^%b()", after) or code:match("^%s*(%b{})", after))
      if arguments and entry.options and next(entry.options) and path == aliases[root] .. rest then
         for _, key in ipairs(keys_in(arguments)) do
            if not entry.options[key] then report(at, path .. ": option " .. key) end
         end
      end
   end
   for at, name in code:gmatch "():([%a_][%w_]*)%s*[%({\"]" do
      local is_foreign = foreign and foreign[code:sub(1, at - 1):match "[%w_]*$"]
      if not known.members[name] and not own[name] and not is_foreign and not name:find "^_" then
         report(at, "method " .. name)
      end
   end
   return problems
end

return M
