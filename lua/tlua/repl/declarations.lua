-- declarations.lua - the declarations of functions and classes in Lua, from their doc comments, the
-- signatures that args.signature has made, and their defaults. `help`, completion and the reference
-- (src/docs) all read them here. A declaration is
--
--    {path =, kind = "function"|"class"|"method", calls = {...}, text = lines,
--     params = {{name =, type =, default =, optional =, text =}}, returns = {{type =, text =}},
--     fields =, methods =, tags =, chunk =, line =}
--
-- and for some kinds further fields, such as signature, body, about_options, module, see, is_twin
-- and missing (of a class or a method without a text).

local torch = require "tlua"
local args = require "tlua.args"
local checked = require "tlua.checked"
local comments = require "tlua.repl.comments"
local packages = require "tlua.packages"
local types = require "tlua.repl.types"
local vocabulary = require "tlua.repl.vocabulary"

local M = {}

-- Sources -----------------------------------------------------------------------------------------

local cache = {}

--- Returns the lines of a source file of the library or of a package. Returns nil if the source
--- cannot be found: a library that is linked into a host program does not contain its sources.
---@param name string  the name of a chunk, such as "=tlua:nn/Linear.lua", or of a module
---@return string[]? lines
function M.source_lines(name)
   if cache[name] == nil then
      local found, read = pcall(require, "tlua.repl.source")
      local text = found and read(name) or packages.source(name)
      cache[name] = text and {} or false
      for line in (text and text .. "\n" or ""):gmatch "([^\n]*)\n" do
         table.insert(cache[name], line)
      end
   end
   return cache[name] or nil
end

local source_lines = M.source_lines

-- Tags --------------------------------------------------------------------------------------------

--- Returns the parameters that the tags of a doc comment declare.
---@param tags table<string, {name: string, text: string}[]>  the tags that comments.take has
--- returned
---@return {name: string, type: string, text: string, optional: boolean, options: table?}[]
function M.parameters(tags)
   local list = {}
   for i, tag in ipairs(tags.param or {}) do
      local type, text = types.split(tag.text)
      list[i] = {
         name = tag.name:gsub("%?$", ""), type = type, text = text,
         optional = tag.name:sub(-1) == "?",
      }
      list[i].options = types.fields(type)
      -- The text of the tag `options` may describe the options: "compress: of .npz; quality: of
      -- .jpg".
      for _, option in ipairs(list[i].options or {}) do
         option.text = (";" .. text):match("[;,]%s*" .. option.name .. ":%s*([^;]*)") or ""
      end
   end
   return list
end

--- Returns the results that the tags of a doc comment declare.
---@param tags table<string, {name: string, text: string}[]>
---@return {type: string, text: string}[]
function M.results(tags)
   local list = {}
   for i, tag in ipairs(tags["return"] or {}) do
      local type, text = types.split((tag.name .. " " .. tag.text):gsub("%s+$", ""))
      list[i] = {type = type, text = text}
   end
   return list
end

--- Returns the fields that the tags of a doc comment declare.
---@param tags table<string, {name: string, text: string}[]>
---@return {name: string, type: string, text: string}[]
function M.fields(tags)
   local list = {}
   for i, tag in ipairs(tags.field or {}) do
      local type, text = types.split(tag.text)
      list[i] = {name = tag.name, type = type, text = text}
   end
   return list
end

--- Returns the signature of a function's arguments. args.signature keeps the signature in an
--- upvalue of one of the function's upvalues, so that sources need no second list of their
--- parameters.
---@param fn function
---@return {title: string, by_name: table, [integer]: table}?
function M.signature(fn)
   fn = args.inner[fn] or fn
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

-- Returns the text that describes the parameter `options` as a whole.
local function about_options(tags)
   for _, tag in ipairs(M.parameters(tags)) do
      local is_divided = false
      for _, option in ipairs(tag.options or {}) do
         is_divided = is_divided or option.text ~= ""
      end
      if tag.name == "options" and tag.text ~= "" and not is_divided then return tag.text end
   end
end

-- Returns the parameters of a signature, with types and defaults, and with texts from the doc
-- comment. Parameters that are only in the doc comment come first.
local function parameters_of(signature, tags)
   local words, list = {}, {}
   for _, tag in ipairs(M.parameters(tags)) do
      words[tag.name] = tag
      if not signature.by_name[tag.name] and tag.name ~= "options" and tag.name ~= "..." then
         list[#list + 1] = tag
      end
      for _, option in ipairs(tag.options or {}) do
         words[option.name] = words[option.name] or option
      end
   end
   for _, p in ipairs(signature) do
      local tag = words[p.name]
      list[#list + 1] = {
         name = p.name, type = types.of_signature(p.kinds), default = p.default,
         optional = p.optional, text = tag and tag.text or "",
      }
   end
   return list
end

--- Returns whether a declaration describes a parameter, by a text for the parameter itself or in
--- the declaration's text.
---@param declared table
---@param parameter table
---@return boolean
function M.is_told(declared, parameter)
   if (parameter.text or "") ~= "" then return true end
   local text = (" %s %s "):format(table.concat(declared.text, " "), declared.about_options or "")
   local name = parameter.name:gsub("%.", "%%.")
   return text:find("%f[%w_]" .. name .. "%f[^%w_]") ~= nil
end

--- Gives each parameter without a text the text in vocabulary.lua, unless the declaration's text
--- describes the parameter.
---@param declared table
---@return table declared
function M.complete(declared)
   for _, p in ipairs(declared.params) do
      if not M.is_told(declared, p) then p.text = vocabulary.words(declared.path, p.name) end
   end
   return declared
end

--- Returns a default value as text in Lua.
---@param value any
---@return string
function M.show(value)
   if type(value) == "table" then
      local items = {}
      for i, item in ipairs(value) do items[i] = M.show(item) end
      return "{" .. table.concat(items, ", ") .. "}"
   end
   if math.type(value) == "float" then return ("%.14g"):format(value) end
   return type(value) == "string" and ("%q"):format(value) or tostring(value)
end

--- Returns the parameters of a call as text, each with its default: `bias = true`, `dtype?`.
--- Parameters that can be given only by name stand in braces.
---@param params table[]
---@return string[]
function M.arguments(params)
   local list, braces = {}, false
   for i, p in ipairs(params) do
      local text = p.name .. (p.default == nil and p.optional and "?" or "")
      if p.default ~= nil then text = text .. " = " .. M.show(p.default) end
      list[i] = (p.named and not braces and "{" or "") .. text
      braces = p.named
   end
   if braces then list[#list] = list[#list] .. "}" end
   return list
end

--- Returns the call of a function with its parameters and their defaults.
---@param name string
---@param params table[]
---@return string
function M.call(name, params)
   return name .. "(" .. table.concat(M.arguments(params), ", ") .. ")"
end

local function trim(lines)
   while lines[1] == "" do table.remove(lines, 1) end
   while lines[#lines] == "" do lines[#lines] = nil end
   return lines
end

-- Definitions by name -----------------------------------------------------------------------------

-- Maps the names of classes to their definitions, {comment, line, module}, for classes that a row
-- of a table or a call of `define` has made. The functions of such a class do not show where the
-- class is defined, so the loaded modules are searched for the definition.
local definitions, searched = {}, {}

-- Functions and values that a loop or another function makes are found by their comments. Maps
-- their paths to {comment, line, module}. The comment names the paths by tags: `---@names
-- jit.ignore jit.unused`.
local named = {}

local function find_definitions(module)
   searched[module] = true
   local lines = source_lines(module) or {}
   for i, line in ipairs(lines) do
      local tagged = line:match "^%s*%-%-%-@class ([%w_.]+)"
      local several = line:match "^%s*%-%-%-@names (.+)$"
      local last = i
      while (tagged or several) and (lines[last] or ""):find "^%s*%-%-%-" do last = last + 1 end
      if tagged and not definitions[tagged] then
         definitions[tagged] = {comments.above(lines, last), i, module}
      end
      for path in (several or ""):gmatch "%S+" do
         named[path] = {comments.above(lines, last), i, module}
      end
      local quoted = line:match 'define%s*%(?"([%w_]+)"' or line:match 'class%("([%w_.]+)"'
         or line:match '^%s*{"([%w_]+)"'
      local comment = quoted and not definitions[quoted] and comments.above(lines, i)
      if comment and #comment > 0 then definitions[quoted] = {comment, i, module} end
   end
end

local function search_modules()
   local modules = {}
   for module in pairs(package.loaded) do
      if module:find "^tlua%f[%z.]" and not searched[module] then modules[#modules + 1] = module end
   end
   table.sort(modules)
   for _, module in ipairs(modules) do find_definitions(module) end
end

local function find_definition(name)
   search_modules()
   local found = definitions[name] or definitions[name:match "[^.]+$"]
   if found then return table.unpack(found) end
end

-- Functions in Lua --------------------------------------------------------------------------------

local function comment_at(fn)
   local info = debug.getinfo(args.inner[fn] or fn, "S")
   local lines = info.what == "Lua" and source_lines(info.source)
   if not lines then return nil, info end
   return comments.above(lines, info.linedefined), info
end

--- Returns the declaration of a function or value that a comment with a tag `names` declares.
---@param path string
---@param shown? string  the function's name in the call, if that is not the path
---@param kind? string  "function" by default
---@return table?
function M.of_named(path, shown, kind)
   search_modules()
   local found = named[path] or named[path:gsub("^torch%.", "")]
   if not found then return nil end
   local text, tags = comments.take(found[1])
   local params, is_function = M.parameters(tags), kind == nil or kind == "function"
   return M.complete {
      path = path, kind = kind or "function", text = trim(text), params = params,
      calls = {is_function and M.call(shown or path, params) or nil}, returns = M.results(tags),
      chunk = found[3], line = found[2], tags = tags,
   }
end

--- Returns the declaration of a function, or nil if it has neither a doc comment nor a signature.
---@param path string
---@param fn function
---@param shown? string  the function's name in the call, if that is not the path
---@return table?
function M.of_function(path, fn, shown)
   local method = checked.origin(fn)
   local comment, info = comment_at(method)
   if not comment or #comment == 0 then
      local declared = M.of_named(path, shown)
      if declared then return declared end
   end
   if not comment then return nil end
   local text, tags = comments.take(comment)
   local signature = M.signature(fn)
   local params = signature and parameters_of(signature, tags) or M.parameters(tags)
   text = trim(text)
   if #text == 0 and #(tags["return"] or {}) == 0 and #params == 0 then return nil end
   return M.complete {
      path = path, kind = "function", calls = {M.call(shown or path, params)}, text = text,
      params = params, returns = M.results(tags), chunk = info.source, line = info.linedefined,
      tags = tags, signature = signature, body = method,
      about_options = signature and about_options(tags),
   }
end

-- Classes -----------------------------------------------------------------------------------------

-- Returns the comment above the line that makes a class, and the number of that line, which is
-- found by the class's name in quotes.
local function class_comment(lines, name)
   local short = name:match "[^.]+$"
   for i, line in ipairs(lines) do
      for quoted in line:gmatch '"([%w_.]+)"' do
         if quoted == name or quoted == short then return comments.above(lines, i), i end
      end
   end
   return {}, nil
end

--- Returns the text in the first lines of a file, without the file's name.
---@param lines string[]
---@return string[]
function M.heading(lines)
   local last = 1
   while lines[last] and lines[last]:find "^%-%-" do last = last + 1 end
   local text = comments.above(lines, last)
   if text[1] then
      text[1] = text[1]:gsub("^%S+%.lua %- ", ""):gsub("^%l%l+[%s,:]", function(word)
         return word:sub(1, 1):upper() .. word:sub(2)
      end)
   end
   return trim(text)
end

-- Returns the options that an optimizer takes, with their defaults. The function makes an optimizer
-- to read its options, since the constructor adds the parents' options.
local function optimizer_params(class)
   if not require "tlua.class".issubclass(class, torch.optim.Optimizer) then return nil end
   local ok, made = pcall(class, {torch.ones(1, 1):requires_grad_(true)})
   if not ok then return nil end
   local list, order = {{name = "params", type = "Tensor[]|table[]", text = ""}}, {}
   for name in pairs(made.defaults) do order[#order + 1] = name end
   table.sort(order, function(a, b)
      if (a == "lr") ~= (b == "lr") then return a == "lr" end
      return a < b
   end)
   for _, name in ipairs(order) do
      local default = made.defaults[name]
      local kind = type(default) == "table" and "number[]" or type(default)
      list[#list + 1] = {
         name = name, type = kind, default = default, optional = true, named = true, text = "",
      }
   end
   local others = {}
   for name in pairs(made.implementations) do others[#others + 1] = name end
   table.sort(others)
   for _, name in ipairs(others) do
      list[#list + 1] = {name = name, type = "boolean", optional = true, named = true, text = ""}
   end
   return list
end

-- Returns the path of the function in torch.nn.functional that a layer or loss computes, such as
-- nn.functional.avg_pool2d for nn.AvgPool2d.
local function function_of(name)
   local short = name:match "^nn%.(%w+)$"
   if not short then return nil end
   short = short:lower():gsub("loss2d$", "loss")
   for other in pairs(torch.nn.functional) do
      -- Underscores are removed, except for the one at the end of an in-place function.
      local flat = other:find "_$" and other or other:gsub("_", "")
      if flat == short or flat .. "loss" == short then return "torch.nn.functional." .. other end
   end
end

-- Names of methods that a class defines for the library's own use. The manual leaves them out.
local for_the_library = {extra_repr = true, check = true, rule = true, adopt = true}

local function methods_of(class, path)
   local list = {}
   for key, value in next, class do
      if type(key) == "string" and not key:find "^_" and type(value) == "function"
         and not for_the_library[key] then
         local declared = M.of_function(path .. ":" .. key, value, "object:" .. key)
         local parent = getmetatable(class).parent
         -- A method that overrides its parent's method without a text of its own gets the parent's
         -- text.
         while not (declared and declared.text[1]) and parent do
            local inherited = rawget(parent, key)
            local above = inherited and M.of_function(path .. ":" .. key, inherited,
               "object:" .. key)
            if declared and above then declared.text = above.text end
            declared, parent = declared or above, getmetatable(parent).parent
         end
         list[#list + 1] = declared or {path = path .. ":" .. key, missing = true}
         list[#list].kind, list[#list].name = "method", key
      end
   end
   table.sort(list, function(a, b) return a.name < b.name end)
   return list
end

-- Splits a text into its prose and the example at its end, which is code with its output.
local function without_example(lines)
   local first, shows = nil, false
   for i, line in ipairs(lines) do
      first = first or line:find "^%s%s" and i
      shows = shows or first ~= nil and line:find "^%s+%-%-> " ~= nil
   end
   if not shows then return lines, nil end
   return trim(table.move(lines, 1, first - 1, 1, {})), table.move(lines, first, #lines, 1, {})
end

-- Returns the fields that a class declares. The tag `class` may name a parent that is not the
-- parent class in Lua; then the fields of that class are added. For example, nn.BatchNorm2d has the
-- fields of nn.BatchNorm1d.
local function fields_of(class, tags)
   local fields, tag = M.fields(tags), tags.class and tags.class[1]
   local parent, real = tag and tag.text:match "^[%w_.]+", getmetatable(class).parent
   local above = parent and not (real and real.__name == parent) and find_definition(parent)
   for _, field in ipairs(above and M.fields(select(2, comments.take(above))) or {}) do
      fields[#fields + 1] = field
   end
   return fields
end

--- Returns the declaration of a class. The text is the comment above the line that makes the class,
--- or the file's heading, and then the constructor's comment. It is empty without comments.
---@param path string
---@param class table
---@param module? string  the module that defines the class, if known
---@return table
function M.of_class(path, class, module)
   local name, make = class.__name, class.__init
   local own = debug.getinfo(make, "S")
   local chunk = module and source_lines(module) and module or own.source
   local lines = source_lines(chunk) or {}
   local above, line = class_comment(lines, name)
   if not line and own.source ~= chunk then
      chunk, lines = own.source, source_lines(own.source) or {}
      above, line = class_comment(lines, name)
   end
   if #above == 0 then
      local found, at, defined_in = find_definition(name)
      if found then above, line, chunk = found, at, defined_in end
   end
   local about, tags = comments.take(above)
   local making, arguments = {}, {}
   if rawget(class, "__init") and own.what == "Lua" then
      making, arguments = comments.take(comment_at(make) or {})
   end
   local signature = M.signature(make)
   local params = optimizer_params(class) or signature and parameters_of(signature, arguments)
      or M.parameters(arguments)
   local text, example = without_example(trim(about))
   local file_class = chunk:match "([%w_]+)$" == name:match "[^.]+$"
      or chunk:match "([%w_]+)%.lua$" == name:match "[^.]+$"
   if #text == 0 and file_class then text = M.heading(lines) end
   local computes = function_of(name)
   local is_twin = #text == 0 and computes ~= nil
   if is_twin then
      local short = computes:gsub("^torch%.", "")
      text = {("Computes `%s` of its input, with the options given to the constructor."):format(
         short)}
   end
   local methods, by_field = methods_of(class, path), {}
   local owner = class
   while owner do -- if several ancestors declare a field, the nearest one counts
      local of_owner = owner == class and above or find_definition(owner.__name) or {}
      for _, field in ipairs(M.fields(select(2, comments.take(of_owner)))) do
         by_field[field.name] = by_field[field.name] or field
      end
      owner = getmetatable(owner).parent
   end
   for _, method in ipairs(methods) do
      local field = by_field[method.name]
      -- The class declares the method as a field, by a tag `field`.
      if method.missing and field then
         method.missing, method.text, method.params, method.returns = nil, {field.text}, {}, {}
         method.calls = {"object:" .. method.name .. (field.type:match "^fun(%b())" or "()")}
      end
   end
   if #trim(making) > 0 then
      if #text > 0 then text[#text + 1] = "" end
      table.move(making, 1, #making, #text + 1, text)
   end
   if example then
      if #text > 0 then text[#text + 1] = "" end
      table.move(example, 1, #example, #text + 1, text)
   end
   return M.complete {
      path = path, name = name, kind = "class", text = text, params = params, returns = {},
      calls = {M.call(path:gsub("^torch%.", ""), params)}, fields = fields_of(class, tags),
      methods = methods, see = computes, is_twin = is_twin, missing = #text == 0,
      chunk = line and chunk or own.source, line = line or own.linedefined, module = module,
      tags = arguments, signature = signature, body = make,
      about_options = signature and about_options(arguments),
   }
end

return M
