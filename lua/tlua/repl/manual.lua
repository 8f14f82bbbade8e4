-- The manual: what it has on a function, class or name. Operators are described by the table that
-- is generated with them (`tlua.manual`), what is written in Lua by the comments of its source.

local torch = require "tlua"

local M = {}

-- Texts of operators by path, "torch.add".
local function operators()
   local found, texts = pcall(require, "tlua.manual")
   return found and texts or {}
end

-- The text of an embedded source, by module or chunk name; nil without the command's help.
local function source_of(name)
   local found, read = pcall(require, "tlua.repl.source")
   return found and read(name) or nil
end

-- Names -------------------------------------------------------------------------------------------

-- Another name of an operator, such as "absolute" -> "torch.abs".
local function by_alias(texts, path)
   local owner, name = path:match("^(.*%.)(.-)$")
   for other, text in pairs(texts) do
      if other:sub(1, #owner) == owner and text:find("\nalias: " .. name .. "\n", 1, true) then
         return text
      end
   end
end

-- The operator's text for a name in any of its forms: add, torch.add, Tensor.add, x:add_.
local function operator(name)
   local texts = operators()
   local path = name:gsub("^Tensor%.", ""):gsub("^[%w_]+:", ""):gsub("^torch%.", "")
   local twin = path:gsub("^sim%.", "cuda.") -- one text for both kinds of device
   for _, name_tried in ipairs {path, (path:gsub("_$", "")), twin} do
      local candidate = "torch." .. name_tried
      local text = texts[candidate] or by_alias(texts, candidate)
      if text then return text end
   end
end

local function lazy_names(value)
   local meta = type(value) == "table" and getmetatable(value)
   return type(meta) == "table" and meta.lazy or {}
end

--- What a name such as "nn.Linear" stands for, and the module that it was loaded from.
---@param name string
---@return any value
---@return string? module
function M.resolve(name)
   local value, module = torch, nil
   if name == "" or not torch.has(name) then return nil end
   for part in name:gsub("^torch%.", ""):gmatch("[^.]+") do
      module = lazy_names(value)[part] or module
      value = value[part]
   end
   return value, module
end

-- The path of a function: among the tables that hold functions, the first that has it.
local function path_of(fn)
   local holders = {
      {"torch.", torch}, {"torch.", torch.Tensor}, {"torch.autograd.", torch.autograd},
      {"torch.linalg.", torch.linalg}, {"torch.special.", torch.special},
      {"torch.nn.functional.", torch.nn.functional},
      {"torch.cuda.", torch.cuda}, {"torch.sim.", torch.sim}, {"torch.io.", torch.io},
   }
   for _, holder in ipairs(holders) do
      local prefix, members = table.unpack(holder)
      for name, value in next, members or {} do
         if value == fn then return prefix .. name end
      end
   end
end

-- Comments ----------------------------------------------------------------------------------------

local function lines_of(text)
   local lines = {}
   for line in text:gmatch("([^\n]*)\n?") do lines[#lines + 1] = line end
   return lines
end

-- The lines of the comment that ends above line `last`, without dashes.
local function comment_above(lines, last)
   local first = last
   while first > 1 and lines[first - 1]:find("^%s*%-%-") do first = first - 1 end
   local comment = {}
   for i = first, last - 1 do comment[#comment + 1] = lines[i]:match("^%s*%-+%s?(.-)%s*$") end
   return comment
end

-- A comment's sentences, and its lines with a certain tag, as "  name  the rest".
local function sentences(comment)
   local text = {}
   for _, line in ipairs(comment) do
      if not line:find("^@") then text[#text + 1] = line end
   end
   return table.concat(text, "\n")
end

local function tagged(comment, tag)
   local list = {}
   for _, line in ipairs(comment) do
      local name, rest = line:match("^@" .. tag .. "%s+(%S+)%s*(.*)$")
      if name then list[#list + 1] = ("  %-16s %s"):format(name, rest) end
   end
   return table.concat(list, "\n")
end

-- What the first lines of a file say about it, without its name.
local function heading(lines)
   local last = 1
   while lines[last] and lines[last]:find("^%-%-") do last = last + 1 end
   local text = sentences(comment_above(lines, last)):gsub("^%S+%.lua %- ", "")
   if text:find("^%l%l+[%s,:]") then text = text:sub(1, 1):upper() .. text:sub(2) end
   return text
end

-- Signatures --------------------------------------------------------------------------------------

-- The declaration that `args.signature` has made for a function to call: an upvalue of one of its
-- upvalues. Spares the sources a second list.
local function declaration(fn)
   for i = 1, 255 do
      local name, parser = debug.getupvalue(fn, i)
      if not name then return nil end
      if type(parser) == "function" then
         for j = 1, 4 do
            local inner, declared = debug.getupvalue(parser, j)
            if inner == "signature" and type(declared) == "table" and declared.title then
               return declared
            end
         end
      end
   end
end

local function parameter_text(parameter)
   local default = parameter.default
   if default ~= nil then
      return ("%s = %s"):format(parameter.name,
         type(default) == "string" and ("%q"):format(default) or tostring(default))
   end
   return parameter.name .. (parameter.optional and "?" or "")
end

-- Long calls go on in lines of their own, below the first.
local function wrap(text)
   local lines = {""}
   for word in text:gmatch("%S+%s?") do
      local line = lines[#lines]
      if line ~= "" and #line + #word > 80 then
         lines[#lines] = line:gsub("%s$", "")
         lines[#lines + 1] = "   " .. word
      else
         lines[#lines] = line .. word
      end
   end
   return table.concat(lines, "\n")
end

-- "nn.Linear(in_features, out_features, bias = true, ...)"
local function call_text(name, fn, comment)
   local declared = declaration(fn)
   local parameters = {}
   for _, parameter in ipairs(declared or {}) do
      parameters[#parameters + 1] = parameter_text(parameter)
   end
   if not declared then
      for _, line in ipairs(comment) do
         parameters[#parameters + 1] = line:match("^@param%s+(%S+)")
      end
   end
   return wrap(("%s(%s)"):format(name, table.concat(parameters, ", ")))
end

-- Texts -------------------------------------------------------------------------------------------

local function join(parts)
   local text = {}
   for _, part in ipairs(parts) do
      if part and part ~= "" then text[#text + 1] = part end
   end
   return table.concat(text, "\n\n")
end

-- A function in Lua; nil if no source or no comment is at hand.
local function function_text(name, fn)
   local info = debug.getinfo(fn, "S")
   local source = info.what == "Lua" and source_of(info.source)
   if not source then return nil end
   local comment = comment_above(lines_of(source), info.linedefined)
   if #comment == 0 then return nil end
   return join {call_text(name, fn, comment), sentences(comment), tagged(comment, "param")}
end

-- The comment above the line that makes a class, which names it in quotes.
local function class_comment(lines, name)
   local short = name:match("[^.]+$")
   for i, line in ipairs(lines) do
      for quoted in line:gmatch('"([%w_.]+)"') do
         if quoted == name or quoted == short then return comment_above(lines, i) end
      end
   end
   return {}
end

local function methods(class)
   local names = {}
   for name, value in next, class do
      local public = type(value) == "function" and not name:find("^_") and name ~= "extra_repr"
      if public then names[#names + 1] = name end
   end
   table.sort(names)
   return #names > 0 and "Methods: " .. table.concat(names, ", ") or nil
end

-- "See also" the function that a layer or loss computes: nn.AvgPool2d, avg_pool2d.
local function function_of(name)
   local short = name:match("^nn%.(%w+)$")
   if not short then return nil end
   short = short:lower()
   for other in next, torch.nn.functional do
      local flat = other:gsub("_", "")
      if flat == short or flat .. "loss" == short then
         return ('See also help "nn.functional.%s".'):format(other)
      end
   end
end

-- A class; `module` is where it was loaded from, if that is known.
local function class_text(class, module)
   local name, make = class.__name, class.__init
   local own = debug.getinfo(make, "S")
   local source = source_of(module or own.source) or source_of(own.source)
   if not source then return nil end
   local lines = lines_of(source)
   local comment = class_comment(lines, name)
   local made_here = rawget(class, "__init") and source == source_of(own.source)
   local making = made_here and comment_above(lines, own.linedefined) or {}
   local about = sentences(comment)
   return join {
      call_text(name, make, making), about ~= "" and about or heading(lines), sentences(making),
      declaration(make) and "" or tagged(making, "param"), tagged(comment, "field"),
      methods(class), function_of(name),
   }
end

local function is_class(value)
   local meta = type(value) == "table" and getmetatable(value)
   return type(meta) == "table" and meta.ancestors ~= nil
end

local function by_name(name)
   local text = operator(name)
   if text then return text end
   local value, module = M.resolve(name)
   if is_class(value) then return class_text(value, module) end
   if type(value) == "function" then return function_text(name, value) end
   local source = type(value) == "table" and module and source_of(module)
   return source and heading(lines_of(source)) or nil
end

-- What the file of a loaded module says about it.
local function module_text(value)
   for name, loaded in next, package.loaded do
      if loaded == value and name:find("^tlua%.") then
         local source = source_of(name)
         return source and heading(lines_of(source)) or nil
      end
   end
end

--- The manual's text on a function, a class, an object of a class, or a name such as "add",
--- "torch.add" or "nn.Linear"; nil where it has none.
---@param subject any
---@return string?
function M.help(subject)
   if type(subject) == "string" then return by_name(subject) end
   if type(subject) == "function" then
      local path = path_of(subject)
      return path and by_name(path) or function_text("function", subject)
   end
   local class = is_class(subject) and subject or getmetatable(subject)
   if is_class(class) then return by_name(class.__name) or class_text(class) end
   return module_text(subject)
end

return M
