-- emit_bind.lua - writes the Lua functions of the operators: one C function for each signature, one
-- dispatcher for each operator with several overloads, and the table of all functions.

local cdecl = require "cdecl"
local default_c = require("expr").default_c
local profile = require "emit_profile"

local M = {}

local getters = {
   TENSOR = "tensor", OPERAND = "operand", TENSORS = "tensors", NUMBER = "number", INT = "int",
   DIM = "dim",
   INDEX = "index", BOOL = "bool", FLOAT = "float", FLOATS = "floats", INTS = "ints", DIMS = "dims",
   DIM_LISTS = "dim_lists", INDICES = "indices", STRING = "string", DTYPE = "dtype",
   DEVICE = "device",
   GENERATOR = "generator", TRUE = "bool",
}
local without_default = {TENSOR = true, OPERAND = true, TENSORS = true, GENERATOR = true}

local function quote(text)
   return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"'
end

--- Returns a parameter's name in Lua. The parameter's name in C ends in an underscore, such as
--- `end_`, if its name is a keyword of C or Lua.
function M.lua_name(param)
   return (param.name:gsub("_$", ""))
end

-- Returns a default value as Lua users write it. Positions count from 1.
local function lua_default(param)
   local text = param.default
   if text == nil or text == "nil" then return nil end
   local number = math.tointeger(tonumber(text))
   local counts = param.type == "dim" or param.type == "index" or param.type == "dim[]"
   if counts and number and number >= 0 then
      return tostring(number + 1)
   end
   if text == "inf" then return "math.huge" elseif text == "-inf" then return "-math.huge" end
   return text
end
M.lua_default = lua_default

--- Returns the usage line of an operator for help and error messages. With `inplace`, it is the
--- usage of the in-place form.
function M.usage(op, name, inplace)
   local positional, named = {}, {}
   for _, p in ipairs(op.params) do
      local default = lua_default(p)
      local text = M.lua_name(p) .. (p.vararg and "..." or "")
      if p.keyword_only then
         named[#named + 1] = M.lua_name(p) .. (default and " = " .. default or "")
      else
         local suffix = default and " = " .. default or p.optional and "?" or ""
         positional[#positional + 1] = text .. suffix
      end
   end
   if not inplace and M.takes_inplace(op) then positional[#positional + 1] = "inplace = false" end
   if op.creation then named[#named + 1] = "requires_grad = false" end
   if not inplace and M.has_out(op) then named[#named + 1] = "out" end
   if #named > 0 then positional[#positional + 1] = "{" .. table.concat(named, ", ") .. "}" end
   return ("%s(%s)"):format(name, table.concat(positional, ", "))
end

--- Returns whether the Lua function takes the option `inplace`. Functions of torch.nn.functional
--- do.
function M.takes_inplace(op)
   return op.module == "nn.functional" and op.inplace and true or false
end

--- Returns whether the Lua function takes the option `out`.
function M.has_out(op)
   return op.results.kind == "tensor" and not op.view and op.out ~= false and not op.creation
end

local function param_row(op, p)
   local flags = {}
   if p.optional then flags[#flags + 1] = "TLI_P_OPTIONAL" end
   if p.keyword_only then flags[#flags + 1] = "TLI_P_KEYWORD" end
   if p.vararg then flags[#flags + 1] = "TLI_P_VARARG" end
   if op.any_device and op.any_device[p.name] then flags[#flags + 1] = "TLI_P_ANY_DEVICE" end
   return ("  {\"%s\", TLI_A_%s, %s, %d},"):format(
      M.lua_name(p), p.info.kind, #flags > 0 and table.concat(flags, " | ") or "0", p.expand)
end

local function full_name(op, name)
   return (op.module and not op.also and op.module .. "." or "") .. name
end

local function emit_signature(op, name, cname, extra, inplace)
   local rows = {}
   for _, p in ipairs(op.params) do rows[#rows + 1] = param_row(op, p) end
   for _, row in ipairs(extra) do rows[#rows + 1] = row end
   local count = #rows
   if count == 0 then rows[1] = "  {NULL, 0, 0, 0}," end
   return ("static const tli_Param params_%s[] = {\n%s\n};\n"):format(
      cname, table.concat(rows, "\n"))
      .. ("static const tli_Signature sig_%s = {%s, %s,\n  params_%s, %d, %s, %s};"):format(
         cname, quote(full_name(op, name)), quote(M.usage(op, full_name(op, name), inplace)), cname,
         count, op.pointwise and "true" or "false", (op.view or op.stored) and "true" or "false")
end

-- Writes the code that reads the arguments. Operands are read last, because reading a number as an
-- operand creates a temporary tensor, which the call must release.
local function emit_reading(op, line)
   local order = {}
   for _, operands in ipairs {false, true} do
      for i, p in ipairs(op.params) do
         if (p.type == "Operand") == operands then order[#order + 1] = {i, p} end
      end
   end
   for _, pair in ipairs(order) do
      local i, p = pair[1], pair[2]
      local getter = getters[p.info.kind]
      if without_default[p.info.kind] then
         line("  %s%s = tli_arg_%s(&a, %d);", p.info.c, p.name, getter, i - 1)
      else
         line("  %s%s = tli_arg_%s(&a, %d, %s);", p.info.c, p.name, getter, i - 1,
              p.optional and default_c(p) or p.info.none)
      end
   end
end

local function cast_name(cast) return "TLI_CAST_" .. (cast or "none"):upper() end

-- Writes the casts of autocast. Autocast casts the tensor arguments, unless the call specifies the
-- dtype of the result or an `out` tensor.
local function emit_casts(op, line)
   local free, singles, lists = "a.S->autocast", {}, {}
   for i, p in ipairs(op.params) do
      if p.type == "Tensor" or p.type == "Operand" then
         singles[#singles + 1] = "&" .. p.name
      elseif p.type == "Tensor[]" then
         lists[#lists + 1] = p.name
      elseif p.type == "dtype" then
         free = ("%s && !tli_args_given(&a, %d)"):format(free, i - 1)
      end
   end
   if M.has_out(op) then
      local out = #op.params + (M.takes_inplace(op) and 1 or 0)
      free = ("%s && !tli_args_given(&a, %d)"):format(free, out)
   end
   if op.autocast.when then free = ("%s && (%s)"):format(free, op.autocast.when) end
   local policy = cast_name(op.autocast.cpu) .. ", " .. cast_name(op.autocast.gpu)
   line("  if (%s) {", free)
   if #singles > 0 then
      line("    tli_autocast(&a, %s, (tl_Tensor **[]){%s}, %d);", policy,
           table.concat(singles, ", "), #singles)
   end
   for _, list in ipairs(lists) do
      line("    tli_autocast_list(&a, %s, &%s);", policy, list)
   end
   line("  }")
end

local function call_args(op, last)
   local list = {}
   for i, p in ipairs(op.params) do list[i] = p.name end
   list[#list + 1] = last
   return table.concat(list, ", ")
end

-- Returns the C call of an operator. Operators without a formula open their own profiler span.
local function call_c(op, args)
   if op.composite and not op.inplace_form then return profile.call(op, args) end
   return ("tlo_%s(%s)"):format(op.cname, args)
end

-- Returns whether the in-place form of an operator consists of calls of other operators. In this
-- case the binding opens the profiler's span for the call.
local function is_observed_here(op)
   return (op.composite or op.expr) and not (op.hooked and op.inplace_form)
end

local function inplace_call_c(op, cname, args)
   return is_observed_here(op) and profile.choice(cname, args) or ("tlo_%s(%s)"):format(cname, args)
end

-- Returns whether PyTorch has a single node where this library has a composition. The composition's
-- last node then gets the name of PyTorch's node.
local function titled(op) return (op.composite or op.expr) and op.node ~= nil end

local function count_nodes(op, line)
   if titled(op) then line("  uint64_t nodes_ = tli_node_count();") end
end

local function entitle(op, line, result)
   if titled(op) then line("  tli_entitle(%s, \"%s\", nodes_);", result, op.node) end
end

-- Writes the call of an operator that changes none of its arguments. If memory is exhausted, the
-- generated code collects garbage and tries the call again.
local function emit_call(op, out, line)
   local call = call_c(op, call_args(op, out))
   line("  bool ok = !a.failed && %s;", call)
   line("  if (!ok && tli_args_retry(&a)) ok = %s;", call)
end

local emit_results = {}

-- Writes the branch for `inplace = true`, which calls the in-place form and returns the first
-- argument.
local function emit_inplace_choice(op, line)
   line("  if (!a.failed && tli_arg_bool(&a, %d, false) && !a.failed) {", #op.params)
   count_nodes(op, line)
   line("    bool ok = %s;", inplace_call_c(op, op.cname .. "_", call_args(op)))
   entitle(op, line, op.params[1].name)
   line("    tli_args_end(&a);")
   line("    if (!ok) return tli_args_raise(&a);")
   line("    lua_pushvalue(L, a.at[0]);")
   line("    return 1;")
   line("  }")
end

function emit_results.tensor(op, line)
   local out = M.has_out(op) and #op.params or nil
   if M.takes_inplace(op) then
      emit_inplace_choice(op, line)
      out = out and out + 1
   end
   local call = call_c(op, call_args(op))
   count_nodes(op, line)
   if op.creation then
      line("  bool requires_grad = tli_arg_bool(&a, %d, false);", #op.params)
   end
   line("  tl_Tensor *result = a.failed ? NULL : %s;", call)
   line("  if (result == NULL && tli_args_retry(&a)) result = %s;", call)
   if op.casts_result then line("  result = tli_autocast_result(&a, result);") end
   entitle(op, line, "result")
   if op.creation then
      line("  if (result && requires_grad && !tli_set_requires_grad(result, true)) {")
      line("    tli_release(result);")
      line("    result = NULL;")
      line("  }")
   elseif out then
      line("  if (tli_args_given(&a, %d)) return tli_return_out(&a, %d, result);", out, out)
   end
   line("  tli_args_end(&a);")
   line("  if (result == NULL) return tli_args_raise(&a);")
   line("  tli_fill_box(a.S, box, result);")
   line("  return 1;")
end

function emit_results.tensors(op, line)
   line("  tl_Tensor *out[%d] = {NULL};", op.results.count)
   count_nodes(op, line)
   emit_call(op, "out", line)
   for k = 0, op.results.count - 1 do entitle(op, line, ("out[%d]"):format(k)) end
   line("  tli_args_end(&a);")
   line("  if (!ok) return tli_args_raise(&a);")
   line("  return tli_return_several(L, a.S, boxes, out, %d);", op.results.count)
end

function emit_results.self(op, line, cname)
   count_nodes(op, line)
   line("  bool ok = !a.failed && %s;", inplace_call_c(op, cname, call_args(op)))
   entitle(op, line, op.params[1].name)
   line("  tli_args_end(&a);")
   line("  if (!ok) return tli_args_raise(&a);")
   line("  lua_settop(L, 1);")
   line("  return 1;")
end

local none_of = {["tl_Tensors "] = "{0, NULL}", ["tl_Scalar "] = "{0}", ["tl_Ints "] = "{0, NULL}"}

function emit_results.value(op, line)
   local info = op.results.info
   if info.push == "tensors" then
      count_nodes(op, line)
      emit_call(op, "list", line)
      if titled(op) then
         line("  for (int64_t i_ = 0; ok && i_ < list->n; i_++)")
         entitle(op, line, "list->v[i_]")
      end
      line("  tli_args_end(&a);")
      line("  return ok ? tli_finish_list(L, list) : tli_args_raise(&a);")
      return
   end
   line("  %sout = %s;", info.c, none_of[info.c] or "0")
   emit_call(op, "&out", line)
   line("  tli_args_end(&a);")
   line("  if (!ok) return tli_args_raise(&a);")
   if info.push == "bool" then
      line("  lua_pushboolean(L, out);\n  return 1;")
   elseif info.push == "int" then
      line("  lua_pushinteger(L, out);\n  return 1;")
   elseif info.push == "number" then
      line("  return tli_push_scalar(L, out);")
   else
      line("  return tli_push_%s(L, out);", info.push)
   end
end

local function takes_tensors(op)
   for _, p in ipairs(op.params) do
      local kind = p.info.kind
      if kind == "TENSOR" or kind == "OPERAND" or kind == "TENSORS" then return true end
   end
   return false
end

local function emit_binding(op, name, cname, inplace)
   local extra = {}
   if not inplace and M.takes_inplace(op) then
      extra[1] = "  {\"inplace\", TLI_A_BOOL, TLI_P_OPTIONAL, 0},"
   end
   if not inplace and op.creation then
      extra[#extra + 1] = "  {\"requires_grad\", TLI_A_BOOL, TLI_P_OPTIONAL | TLI_P_KEYWORD, 0},"
   elseif not inplace and M.has_out(op) then
      extra[#extra + 1] = "  {\"out\", TLI_A_TENSOR, TLI_P_OPTIONAL | TLI_P_KEYWORD, 0},"
   end
   local out = {emit_signature(op, name, cname, extra, inplace)}
   local function line(format, ...) out[#out + 1] = format:format(...) end
   local kind = inplace and "self" or op.results.kind
   line("static int bind_%s(lua_State *L) {", cname)
   if takes_tensors(op) then
      line("  if (tli_state(L)->batching > 0) {")
      line("    int n = tli_batched(L, &sig_%s, bind_%s);", cname, cname)
      line("    if (n >= 0) return n;")
      line("  }")
   end
   line("  tli_Args a;")
   line("  tli_args_begin(&a, L, &sig_%s);", cname)
   -- the generated code allocates all boxes before the call, because an allocation after a failure
   -- could run finalizers, which may fail as well
   if kind == "tensor" then
      line("  tli_Box *box = a.failed ? NULL : tli_new_box(L, a.S);")
   elseif kind == "tensors" then
      line("  tli_Box *boxes[%d];", op.results.count)
      line("  for (int i = 0; i < %d && !a.failed; i++) boxes[i] = tli_new_box(L, a.S);",
           op.results.count)
   end
   if kind == "value" and op.results.info.push == "tensors" then
      line("  tl_Tensors *list = a.failed ? NULL : tli_push_list(L);")
   end
   emit_reading(op, line)
   local refuses = op.composite and not op.complex or op.entry.complex == false
   if refuses and cdecl.complex_arguments(op) then
      line("  if (!a.failed && (%s)) a.failed = !tli_refuse_complex(sig_%s.name);",
           cdecl.complex_arguments(op), cname)
   end
   if op.autocast and not op.casts_result and not inplace then emit_casts(op, line) end
   emit_results[kind](op, line, cname)
   line("}")
   return table.concat(out, "\n")
end

-- Groups the operators of a family by their names in Lua. Returns a list with one entry for each
-- name, in the order of the operator table. An entry lists the overloads of its name. A name that
-- exists only as a method has its own entry.
local function group(family)
   local names, forms = {}, {}
   local function add(name, op, cname)
      local key = (op.func == false and ":" or ".") .. name
      local list = forms[key]
      if not list then
         list = {name = name, op = op, ops = {}}
         forms[key] = list
         names[#names + 1] = list
      end
      list[#list + 1] = cname
      list.ops[#list] = op
   end
   for _, op in ipairs(family.ops) do
      if not op.internal and not op.left_out then
         add(full_name(op, op.lua), op, op.cname)
         if op.inplace then add(full_name(op, op.lua .. "_"), op, op.cname .. "_") end
      end
   end
   return names
end

local numeric = {
   INT = true, DIM = true, INDEX = true, FLOAT = true, NUMBER = true, OPERAND = true, INTS = true,
   FLOATS = true, DIMS = true, INDICES = true,
}

-- Returns the only overload whose second argument may be a number. Returns nil if there are none or
-- several.
local function form_of_number(list)
   local found
   for i, op in ipairs(list.ops) do
      local first, second = op.params[1], op.params[2]
      if first and first.vararg and numeric[first.info.kind]
         or second and not second.keyword_only and numeric[second.info.kind] then
         if found then return nil end
         found = list[i]
      end
   end
   return found
end

local function emit_choice(list)
   local cname = list[1] .. "_forms"
   local forms = {}
   for i, form in ipairs(list) do forms[i] = ("{&sig_%s, bind_%s}"):format(form, form) end
   local number = form_of_number(list)
   local short = "  if (lua_type(L, 2) == LUA_TNUMBER) return bind_%s(L);\n"
   short = number and short:format(number) or ""
   return ("static int bind_%s(lua_State *L) {\n  static const tli_Overload forms[] = {%s};\n"
      .. "%s  return tli_call_overload(L, forms, %d);\n}"):format(
         cname, table.concat(forms, ", "), short, #list), cname
end

local function table_rows(list, cname)
   local op = list.op
   local short = list.name:match("([%w_]+)$")
   local names = {short}
   for _, alias in ipairs(op.alias or {}) do
      names[#names + 1] = short:match("_$") and not alias:match("_$") and alias .. "_" or alias
   end
   local rows = {}
   local function row(name, module, method)
      rows[#rows + 1] = ("  {\"%s\", %s, bind_%s, %s, %s},"):format(
         name, module and quote(module) or "NULL", cname, tostring(method and true or false),
         tostring(op.func ~= false))
   end
   for _, name in ipairs(names) do
      row(name, op.module, op.method)
      if op.also then row(name, nil, false) end
   end
   return table.concat(rows, "\n")
end

-- Returns whether the family has an operator that autocast casts only under a condition. If it has,
-- the C file includes <string.h>, because such a condition may compare strings.
local function has_conditions(family)
   for _, op in ipairs(family.ops) do
      if op.autocast and op.autocast.when then return true end
   end
   return false
end

-- Writes the metamethod of a binary operator. For x + y the metamethod converts numbers to tensors
-- and calls the operator's C function directly. For other kinds of operands it calls the operator's
-- Lua function. Error messages use the name of Lua's operator, such as "add", if a tensor operator
-- has the same name, and otherwise the tensor operator's name.
local function emit_metamethod(op, names)
   local args = {"a", "b"}
   for i = 3, #op.params do args[i] = default_c(op.params[i]) end
   local name = names[op.metamethod] and op.metamethod or op.lua
   local fn = op.left_out and "NULL" or "bind_" .. op.cname
   return ([[
static tl_Tensor *operate_%s(tl_Tensor *a, tl_Tensor *b) { return tlo_%s(%s); }
int tli_meta_%s(lua_State *L) {
%s  return tli_metamethod(L, "%s", operate_%s, %s, %s);
}]]):format(op.metamethod, op.cname, table.concat(args, ", "), op.metamethod,
      op.autocast and not op.left_out and ([[
  tli_enter(L, tli_state(L));
  if (tli_state(L)->autocast) return lua_settop(L, 2), bind_%s(L);
]]):format(op.cname) or "",
      name, op.metamethod, fn, op.reversed and quote(op.reversed) or "NULL")
end

--- Returns the C source of a family's binding.
function M.family(family)
   local out = {
      "/* Generated from " .. family.file .. "; not to be edited. */",
      '#include "bind.h"\n#include "calls.h"\n'
         .. '#include "core/observe/profile.h"\n#include "lua/args/results.h"\n'
         .. '#include "ops.h"\n'
         .. "#include <math.h>\n" .. (has_conditions(family) and "#include <string.h>\n" or ""),
   }
   local rows, names = {}, {}
   for _, op in ipairs(family.ops) do names[op.lua] = names[op.lua] or not op.internal end
   for _, op in ipairs(family.ops) do
      if op.metamethod then
         out[#out + 1] = '#include "lua/tensor/metamethod.h"'
         break
      end
   end
   for _, op in ipairs(family.ops) do
      if not op.internal and not op.left_out then
         if op.composite and not op.flops and not op.inplace_form then
            out[#out + 1] = profile.wrapper(op, "tlo")
         end
         if is_observed_here(op) and (op.inplace or op.inplace_form) then
            out[#out + 1] = profile.wrapper(op, "tlo", true, true)
         end
         out[#out + 1] = emit_binding(op, op.lua, op.cname, op.inplace_form)
         if op.inplace then
            out[#out + 1] = emit_binding(op, op.lua .. "_", op.cname .. "_", true)
         end
      end
      if op.metamethod then out[#out + 1] = emit_metamethod(op, names) end
   end
   for _, list in ipairs(group(family)) do
      local cname = list[1]
      if #list > 1 then
         local text
         text, cname = emit_choice(list)
         out[#out + 1] = text
      end
      rows[#rows + 1] = table_rows(list, cname)
   end
   rows[#rows + 1] = "  {NULL, NULL, NULL, false, false},"
   out[#out + 1] = ("const tli_Binding tli_bindings_%s[] = {\n%s\n};"):format(
      family.name, table.concat(rows, "\n"))
   return table.concat(out, "\n\n") .. "\n"
end

--- Returns bind.h, which declares the tables of all families.
function M.header(all)
   local out = {"/* Generated from src/ops; not to be edited. */",
                "#ifndef TLI_BIND_H\n#define TLI_BIND_H\n",
                "#include \"lua/modes/autocast.h\"\n#include \"lua/args/batched.h\"\n"}
   local list, metamethods = {}, {}
   for _, family in ipairs(all.families) do
      for _, op in ipairs(family.ops) do
         if op.metamethod then
            metamethods[#metamethods + 1] = ("X(%s)"):format(op.metamethod)
            out[#out + 1] = ("int tli_meta_%s(lua_State *L);"):format(op.metamethod)
         end
      end
      out[#out + 1] = ("extern const tli_Binding tli_bindings_%s[];"):format(family.name)
      list[#list + 1] = "tli_bindings_" .. family.name
   end
   out[#out + 1] = ("\n#define TLI_ALL_METAMETHODS(X) %s"):format(table.concat(metamethods, " "))
   out[#out + 1] = ("#define TLI_ALL_BINDINGS {%s, NULL}\n\n#endif\n"):format(
      table.concat(list, ", "))
   return table.concat(out, "\n")
end

return M
