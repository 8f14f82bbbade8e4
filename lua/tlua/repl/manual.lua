-- The manual: finds the text on a function, class or name. The text on an operator comes from the
-- table that is generated with the operators (`tlua.manual`), that on Lua code from the comments of
-- its source.

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local lazy = require "tlua.lazy"
local comments = require "tlua.repl.comments"

local M = {}

-- Returns the texts of operators by path, such as "torch.add".
local function operators()
   local found, texts = pcall(require, "tlua.manual")
   return found and texts or {}
end

-- Returns the text of an embedded source or a package's, by module or chunk name. Returns nil if
-- the command's help is missing.
local function source_of(name)
   local found, read = pcall(require, "tlua.repl.source")
   return found and (read(name) or (require "tlua.packages".source(name))) or nil
end

-- Names -------------------------------------------------------------------------------------------

-- Returns the text of the operator that has this alias, such as torch.abs for "torch.absolute".
local function by_alias(texts, path)
   local owner, name = path:match("^(.*%.)(.-)$")
   for other, text in pairs(texts) do
      if other:sub(1, #owner) == owner and text:find("\nalias: " .. name .. "\n", 1, true) then
         return text
      end
   end
end

-- Returns the operator's text for a name in any form: add, torch.add, Tensor.add, x:add_.
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

--- Returns the value of a name such as "nn.Linear", and the module that it was loaded from.
---@param name string
---@return any value
---@return string? module
function M.resolve(name)
   local value, module = torch, nil
   if name == "" or not torch.has(name) then return nil end
   for part in name:gsub("^torch%.", ""):gmatch("[^.]+") do
      module = lazy.fields(value)[part] or module
      value = value[part]
   end
   return value, module
end

local function is_class(value)
   local meta = type(value) == "table" and getmetatable(value)
   return type(meta) == "table" and meta.ancestors ~= nil
end

-- Returns the path of a function or table in the loaded tables below `torch`. If there are several,
-- it returns the shortest for which accept(path), if given, is true.
local function path_of(wanted, accept)
   local waiting, seen = {{"torch.", torch}, {"torch.", torch.Tensor}}, {}
   local at = 1
   while waiting[at] do
      local prefix, members = table.unpack(waiting[at])
      local below = {}
      for name, value in next, members do
         local public = type(name) == "string" and not name:find "^_"
         local found = public and value == wanted
         if found and (not accept or accept(prefix .. name)) then return prefix .. name end
         local open = public and type(value) == "table" and not seen[value] and not is_class(value)
         if open and value ~= package.loaded and value ~= _G then below[#below + 1] = name end
      end
      table.sort(below)
      for _, name in ipairs(below) do
         seen[members[name]] = true
         waiting[#waiting + 1] = {prefix .. name .. ".", members[name]}
      end
      at = at + 1
   end
end

-- Comments ----------------------------------------------------------------------------------------

local function lines_of(text)
   local lines = {}
   for line in text:gmatch("([^\n]*)\n?") do lines[#lines + 1] = line end
   return lines
end

-- Returns the text in the first lines of a file, without the file's name.
local function heading(lines)
   local last = 1
   while lines[last] and lines[last]:find("^%-%-") do last = last + 1 end
   local comment = comments.above(lines, last)
   comment[1] = comment[1] and comment[1]:gsub("^%S+%.lua %- ", "")
   local text = comments.sentences(comment)
   if text:find("^%l%l+[%s,:]") then text = text:sub(1, 1):upper() .. text:sub(2) end
   return text
end

-- Signatures --------------------------------------------------------------------------------------

-- Returns the declaration of a function's arguments: args.signature keeps it in an upvalue of one
-- of the function's upvalues. So sources need no second list of their parameters.
local function declaration(fn)
   for i = 1, 255 do
      local name, parser = debug.getupvalue(fn, i)
      if not name then return nil end
      if type(parser) == "function" then
         for j = 1, 4 do
            local inner, declared = debug.getupvalue(parser, j)
            if inner == "signature" and type(declared) == "table" and declared.title then
               return args.declaration(declared)
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

-- Returns a call as text: "nn.Linear(in_features, out_features, bias = true, ...)".
local function call_text(name, fn, tags)
   local declared = declaration(fn)
   local parameters = {}
   for _, parameter in ipairs(declared or {}) do
      parameters[#parameters + 1] = parameter_text(parameter)
   end
   if not declared then
      for i, entry in ipairs(tags.param or {}) do parameters[i] = entry.name end
   end
   return comments.list(name .. "(", parameters, ")")
end

-- Texts -------------------------------------------------------------------------------------------

local function join(parts)
   local text = {}
   for _, part in ipairs(parts) do
      if part and part ~= "" then text[#text + 1] = part end
   end
   return table.concat(text, "\n\n")
end

-- Returns the text on a function in Lua, or nil if its source or comment cannot be found.
local function function_text(name, fn)
   local info = debug.getinfo(checked.origin(fn), "S")
   local source = info.what == "Lua" and source_of(info.source)
   if not source then return nil end
   local comment = comments.above(lines_of(source), info.linedefined)
   if #comment == 0 then return nil end
   local declared = declaration(fn)
   local text, tags = comments.parse(comment)
   return join {
      call_text(name or declared and declared.title or "function", fn, tags), text,
      comments.table(tags.param),
   }
end

-- Returns the comment above the line that makes a class, which has the class's name in quotes.
local function class_comment(lines, name)
   local short = name:match("[^.]+$")
   for i, line in ipairs(lines) do
      for quoted in line:gmatch('"([%w_.]+)"') do
         if quoted == name or quoted == short then return comments.above(lines, i) end
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

-- Returns a reference to the function that a layer or loss computes, as avg_pool2d for AvgPool2d.
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

local function value_text(value)
   if type(value) == "table" then
      local items = {}
      for i, item in ipairs(value) do items[i] = value_text(item) end
      return "{" .. table.concat(items, ", ") .. "}"
   end
   if type(value) == "number" and math.type(value) == "float" then return ("%g"):format(value) end
   return type(value) == "string" and ("%q"):format(value) or tostring(value)
end

-- Returns the call of an optimizer's class with all options and their defaults, or nil for other
-- classes. It makes an optimizer to read them, since the constructor adds those of its parents.
local function optimizer_call(class)
   if not require "tlua.class".issubclass(class, torch.optim.Optimizer) then return nil end
   local parameter = torch.ones(1, 1):requires_grad_(true)
   local ok, made = pcall(class, {parameter})
   if not ok then return nil end
   local options, names = {}, {}
   for name in pairs(made.defaults) do names[#names + 1] = name end
   table.sort(names, function(a, b)
      if (a == "lr") ~= (b == "lr") then return a == "lr" end
      return a < b
   end)
   for i, name in ipairs(names) do
      options[i] = ("%s = %s"):format(name, value_text(made.defaults[name]))
   end
   if options[1] then options[1] = "{" .. options[1] end
   return comments.list(class.__name .. "(params, ", options, "})")
end

local optimizer_methods <const> = "Methods: step, zero_grad, state_dict, load_state_dict, "
   .. "add_param_group"

-- Returns the call of an object of a class, if its method `forward` declares one.
local function forward_text(class)
   local forward = rawget(class, "forward")
   local declared = forward and declaration(forward)
   if not declared then return "" end
   return call_text("object", forward, {})
end

-- Returns the text on a class. `module` is the module that it was loaded from, if that is known.
local function class_text(class, module)
   local name, make = class.__name, class.__init
   local own = debug.getinfo(make, "S")
   local source = source_of(module or own.source) or source_of(own.source)
   if not source then return nil end
   local lines = lines_of(source)
   local about, tags = comments.parse(class_comment(lines, name))
   local made_here = rawget(class, "__init") and source == source_of(own.source)
   local making, arguments = comments.parse(
      made_here and comments.above(lines, own.linedefined) or {})
   local call = optimizer_call(class)
   return join {
      call or call_text(name, make, arguments), about ~= "" and about or heading(lines), making,
      not call and comments.table(arguments.param) or "", comments.table(tags.field),
      forward_text(class), call and optimizer_methods or methods(class) or "",
      function_of(name) or "",
   }
end

-- Returns the first sentence on a field of a table, which is an operator or a function in Lua.
local function first_sentence(name, value, key)
   local text = operators()[("%s.%s"):format(name, key)]
   if text then return comments.first_sentence(text:match "\n\n(.*)$" or "") end
   local found, field = pcall(function() return value[key] end)
   local info = found and type(field) == "function" and debug.getinfo(checked.origin(field), "S")
   local source = info and info.what == "Lua" and source_of(info.source)
   if not source then return "" end
   local comment = comments.above(lines_of(source), info.linedefined)
   return comments.first_sentence(comments.sentences(comment))
end

-- Longer lists show only names.
local most_sentences <const> = 40

-- Returns the text on a table of functions, classes and other tables, with a line on each.
local function table_text(name, value, about)
   local names, lines = {}, {}
   for key in next, value do names[key] = true end
   for key in pairs(lazy.fields(value)) do names[key] = true end
   local sorted = {}
   for key in pairs(names) do
      if type(key) == "string" and not key:find "^_" then sorted[#sorted + 1] = key end
   end
   if #sorted == 0 then return about end
   table.sort(sorted)
   local told = 0
   for i, key in ipairs(sorted) do
      local text = #sorted <= most_sentences and first_sentence(name, value, key) or ""
      lines[i] = {name = key, text = text}
      if text ~= "" then told = told + 1 end
   end
   local short = name:gsub("^torch%.", "")
   return join {
      name, about or "",
      told * 2 > #sorted and comments.table(lines) or comments.list("It has ", sorted, "."),
      ('help "%s.%s" tells more.'):format(short, sorted[1]),
   }
end

local function by_name(name)
   local text = operator(name)
   if text then return text end
   local value, module = M.resolve(name)
   if is_class(value) then return class_text(value, module) end
   if type(value) == "function" then return function_text(name, value) end
   if type(value) ~= "table" or value == torch or getmetatable(value) ~= nil
      and next(lazy.fields(value)) == nil and not module then
      return nil
   end
   local source = module and source_of(module)
   return table_text("torch." .. name:gsub("^torch%.", ""), value,
      source and heading(lines_of(source)))
end

-- Returns the text on a loaded module, from the first lines of its file.
local function module_text(value)
   local about
   for name, loaded in next, package.loaded do
      if loaded == value and name:find("^tlua%.") then
         local source = source_of(name)
         about = source and heading(lines_of(source))
      end
   end
   local path = type(value) == "table" and value ~= torch and path_of(value)
   return path and table_text(path, value, about) or about
end

--- Returns the manual's text on a function, a class, an object of a class, or a name such as "add",
--- "torch.add" or "nn.Linear"; nil if it has none.
---@param subject any
---@return string?
function M.help(subject)
   if type(subject) == "string" then return by_name(subject) end
   if type(subject) == "function" then
      local text
      path_of(subject, function(path)
         text = by_name(path)
         return text
      end)
      return text or function_text(nil, subject)
   end
   local class = is_class(subject) and subject or getmetatable(subject)
   if is_class(class) then return by_name(class.__name) or class_text(class) end
   return module_text(subject)
end

return M
