-- emit_docs.lua - writes the operators' texts for help(), the operators' declarations for the
-- reference (src/docs), and the list of operators for the gradient check.

local bind = require "emit_bind"

local M = {}

local function visible(all)
   local list = {}
   for _, op in ipairs(all.ops) do
      if not op.internal then list[#list + 1] = op end
   end
   table.sort(list, function(a, b)
      local x, y = (a.module or "") .. a.lua, (b.module or "") .. b.lua
      return x == y and a.cname < b.cname or x < y
   end)
   return list
end

--- Returns the text of a Lua module: a table from each name that this build leaves out to `true`.
function M.left_out(all)
   local names = {}
   for _, op in ipairs(visible(all)) do
      if op.left_out then
         for _, name in ipairs {op.lua, table.unpack(op.alias or {})} do
            names[#names + 1] = name
            if op.inplace then names[#names + 1] = name .. "_" end
         end
      end
   end
   return ([[
local names = {}
for name in ("%s"):gmatch "%%S+" do names[name] = true end
return names
]]):format(table.concat(names, " "))
end

-- Returns the names of the tables in torch that contain the operator's function; false stands for
-- torch itself.
local function modules_of(op)
   if op.also then return {false, op.module} end
   return {op.module or false}
end

local function owner_of(module) return "torch" .. (module and "." .. module or "") end

-- Returns all paths of the operator's function, the shortest first.
local function paths_of(op)
   local paths = {}
   for i, module in ipairs(modules_of(op)) do paths[i] = owner_of(module) .. "." .. op.lua end
   return paths
end

local function path_of(op) return paths_of(op)[1] end

local function result_text(op)
   local kind = op.results.kind
   if kind == "self" then return "self" end
   if kind == "value" then return op.results.info.lua end
   if kind == "tensor" then return "Tensor" end
   return table.concat(op.results.names, ", ")
end

local function forms_text(op)
   local forms = {}
   if op.func ~= false then
      for i, path in ipairs(paths_of(op)) do forms[i] = bind.usage(op, path) end
   end
   if op.method then
      local call = bind.usage(op, "x:" .. op.lua):gsub("%(self,? ?", "(", 1)
      forms[#forms + 1] = call
   end
   if op.inplace then forms[#forms + 1] = "in place: x:" .. op.lua .. "_" end
   for _, alias in ipairs(op.alias or {}) do forms[#forms + 1] = "alias: " .. alias end
   return forms
end

local function entry_text(op)
   local doc = op.doc:gsub("^%s+", ""):gsub("%s+$", ""):gsub("\n%s+", "\n")
   local notes = {}
   if op.nondiff then notes[#notes + 1] = "Not differentiable: " .. op.nondiff .. "." end
   if op.autocast then
      local cpu, gpu = op.autocast.cpu or "none", op.autocast.gpu or "none"
      local where = cpu == gpu and cpu or ("%s on the CPU, %s on GPUs"):format(cpu, gpu)
      notes[#notes + 1] = ("Autocast: %s%s."):format(where,
         op.autocast.when and ", for some of these arguments" or "")
   end
   if op.waits then notes[#notes + 1] = "Waits for the device: " .. op.waits .. "." end
   return table.concat(forms_text(op), "\n") .. "\n  -> " .. result_text(op) .. "\n\n" .. doc
      .. (#notes > 0 and "\n" .. table.concat(notes, "\n") or "")
end

-- Returns an operator's example with the indentation that help() uses below the text.
local function example_text(op)
   return op.example and "\n\n    " .. op.example:gsub("\n", "\n    ") or ""
end

-- Returns the parameters of an annotated function in the form of a call. An `options` parameter of
-- type {dtype?: string, device?: string} becomes {dtype, device}.
local function call_params(params, options)
   local names = {}
   for name in (options:match "^{(.*)}" or ""):gmatch "([%a_][%w_]*)%??:%s" do
      names[#names + 1] = name
   end
   if #names == 0 then return params end
   return (params:gsub("options", "{" .. table.concat(names, ", ") .. "}"))
end

-- Collects the binding's functions that are not operators from the annotations in
-- src/lua/types*.lua. The comment above each `function owner.name(...) end` becomes that function's
-- text in the manual.
local function binding_functions(types)
   local list, doc, results, options = {}, {}, {}, ""
   for line in types:gmatch("([^\n]*)\n") do
      local text, result = line:match("^%-%-%-([^@].*)$"), line:match("^%-%-%-@return (.*)$")
      options = line:match "^%-%-%-@param options%?? (.*)$" or options
      local owner, separator, name, params =
         line:match("^function ([%w_.]-)([.:])([%w_]+)%((.-)%) end$")
      if text then doc[#doc + 1] = text end
      if result then results[#results + 1] = result end
      if name then
         local method = separator == ":"
         local call = ("%s%s(%s)"):format(method and "x:" or owner .. ".", name,
            call_params(params, options))
         local gives = #results > 0 and "\n  -> " .. table.concat(results, ", ") or ""
         list[#list + 1] = {
            path = (method and "torch" or owner) .. "." .. name,
            text = call .. gives .. "\n\n" .. table.concat(doc, "\n"),
         }
      end
      if not line:find("^%-%-%-") then doc, results, options = {}, {}, "" end
   end
   return list
end

local function merge(all)
   local texts, order = {}, {}
   for _, entry in ipairs(binding_functions(all.types)) do
      if not texts[entry.path] then
         texts[entry.path] = {}
         order[#order + 1] = entry.path
      end
      table.insert(texts[entry.path], entry.text)
   end
   for _, op in ipairs(visible(all)) do
      for _, name in ipairs(paths_of(op)) do
         if not texts[name] then
            texts[name] = {}
            order[#order + 1] = name
         end
         table.insert(texts[name], entry_text(op) .. example_text(op))
      end
   end
   table.sort(order)
   return order, texts
end

--- Returns manual.lua, which maps names to their texts: {["torch.add"] = text, ...}.
function M.manual(all)
   local order, texts = merge(all)
   local out = {"-- Generated from src/ops and src/lua; not to be edited.", "return {"}
   for _, name in ipairs(order) do
      out[#out + 1] = ("   [%q] = %q,"):format(name, table.concat(texts[name], "\n\n"))
   end
   out[#out + 1] = "}\n"
   return table.concat(out, "\n")
end

local function list_text(list, format)
   local texts = {}
   for i, item in ipairs(list) do texts[i] = format(item) end
   return "{" .. table.concat(texts, ", ") .. "}"
end

-- Returns the usage lines of an operator's overloads, without the lines about aliases and in-place
-- forms.
local function usages(op)
   local list = {}
   for _, form in ipairs(forms_text(op)) do
      if not form:find "^alias: " and not form:find "^in place: " then list[#list + 1] = form end
   end
   return list
end

local function notes_of(op)
   local notes = entry_text(op):match "\n\n(.*)$"
   return (notes:gsub("^\n+", ""))
end

-- Returns the parameters of an operator's Lua function, the ones that bind.usage shows, as the text
-- of a Lua table.
local function params_of(op)
   local row <const> = "{name = %q, type = %q, default = %s, optional = %s, named = %s}"
   local list = {}
   for i, p in ipairs(op.params) do
      list[i] = row:format(bind.lua_name(p), p.info.lua,
         p.default and ("%q"):format(p.default) or "nil", tostring(p.optional),
         tostring(p.keyword_only))
   end
   local function add(name, kind, default, is_named)
      list[#list + 1] = row:format(name, kind, default, "true", tostring(is_named))
   end
   if bind.takes_inplace(op) then add("inplace", "boolean", '"false"', false) end
   if op.creation then add("requires_grad", "boolean", '"false"', true) end
   if bind.has_out(op) then add("out", "Tensor", "nil", true) end
   return "{" .. table.concat(list, ", ") .. "}"
end

-- Returns the declaration of one operator entry for src/docs.
local function operator_row(op)
   local params = params_of(op)
   local type = op.results.kind == "value" and op.results.info.lua or "Tensor"
   local results = list_text(op.results.names or {"self"}, function(name)
      return ("{type = %q, name = %q}"):format(type, name)
   end)
   local quote = function(text) return ("%q"):format(text) end
   return ([[{calls = %s, text = %q, params = %s, returns = %s, family = %q, file = %q, line = %d,
       func = %s, method = %s, inplace = %s, creation = %s, alias = %s, example = %q}]]):format(
      list_text(usages(op), quote), notes_of(op), params, results, op.family,
      "src/ops/" .. op.file:match "([^/]+/[^/]+)$", op.line, tostring(op.func ~= false),
      tostring(op.method), tostring((op.inplace or op.inplace_form) and true or false),
      tostring(op.creation or false), list_text(op.alias or {}, quote), example_text(op))
end

--- Returns operators.lua: {["torch.add"] = {declaration, ...}, ...}, with one declaration for each
--- overload.
function M.operators(all)
   local rows, order = {}, {}
   for _, op in ipairs(visible(all)) do
      for _, path in ipairs(paths_of(op)) do
         if not rows[path] then
            rows[path] = {}
            order[#order + 1] = path
         end
         table.insert(rows[path], operator_row(op))
      end
   end
   local out = {"-- Generated from src/ops; not to be edited.", "return {"}
   for _, path in ipairs(order) do
      out[#out + 1] = ("   [%q] = {%s},"):format(path, table.concat(rows[path], ",\n      "))
   end
   out[#out + 1] = "}\n"
   return table.concat(out, "\n")
end

-- Returns the options of the gradient check as a Lua table, or "false" if the operator has no
-- derivative to check.
local function gradcheck_text(op, differentiable)
   local given = op.gradcheck
   if given == false or (given == nil and not differentiable) then return "false" end
   local parts = {}
   for key, value in pairs(given or {}) do
      parts[#parts + 1] = ("%s = %s"):format(key, tostring(value))
   end
   table.sort(parts)
   return "{" .. table.concat(parts, ", ") .. "}"
end

local function gradlist_row(op)
   local differentiable = op.grad ~= nil or ((op.composite or op.expr) and not op.nondiff)
   local fields = {
      {"name", op.lua}, {"path", path_of(op)}, {"form", op.cname},
      {"method", op.method}, {"func", op.func ~= false},
      {"inplace", (op.inplace or op.inplace_form) and true},
      {"out", bind.has_out(op)}, {"view", op.view}, {"differentiable", differentiable},
      {"nondiff", op.nondiff}, {"waits", op.waits}, {"complex", op.complex},
      {"autocast_cpu", op.autocast and op.autocast.cpu},
      {"autocast_gpu", op.autocast and op.autocast.gpu},
   }
   local parts = {}
   for i, field in ipairs(fields) do
      local value = field[2]
      local quoted = type(value) == "string" and ("%q"):format(value)
      parts[i] = field[1] .. " = " .. (quoted or tostring(value and true or false))
   end
   parts[#parts + 1] = "gradcheck = " .. gradcheck_text(op, differentiable)
   parts[#parts + 1] = "params = " .. list_text(op.params, function(p)
      return ("{%q, %q, %s}"):format(bind.lua_name(p), p.type, tostring(p.optional))
   end)
   local examples = list_text(op.examples or {}, function(e) return ("%q"):format(e) end)
   parts[#parts + 1] = "examples = " .. examples
   return "   {" .. table.concat(parts, ",\n    ") .. "},"
end

--- Returns the text of gradlist.lua, which returns {{name=, examples=, ...}, ...}. Specs iterate
--- over this table.
function M.gradlist(all)
   local out = {"-- Generated from src/ops; not to be edited.", "return {"}
   for _, op in ipairs(visible(all)) do out[#out + 1] = gradlist_row(op) end
   out[#out + 1] = "}\n"
   return table.concat(out, "\n")
end

return M
