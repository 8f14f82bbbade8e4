-- emit_calls.lua - writes the table of operators that programs (src/graph) can call. Each row has
-- an operator's name, its parameters, and a function that takes an array of arguments.

local cdecl = require "cdecl"
local fill = require "template"

local M = {}

-- Maps the kind of a parameter to the member of tli_CallArg that holds such an argument.
local members = {
   TENSOR = "tensor", OPERAND = "tensor", TENSORS = "tensors", NUMBER = "number", INT = "integer",
   DIM = "integer", INDEX = "integer", BOOL = "flag", TRUE = "flag", FLOAT = "real", INTS = "ints",
   DIMS = "ints", DIM_LISTS = "ints", INDICES = "ints", FLOATS = "reals", STRING = "text",
   DTYPE = "dtype", DEVICE = "device", GENERATOR = "generator",
}

--- Returns initialisers that store an operator's arguments in an array of tli_CallArg.
---@return string
function M.values(op)
   if #op.params == 0 then return "{.integer = 0}" end
   return table.concat(cdecl.map(op.params, function(p)
      return ("{.%s = %s}"):format(members[p.info.kind], p.name)
   end), ", ")
end

-- Returns C code for the arguments of a call, which the code reads from an array of tli_CallArg.
local function read(op)
   return cdecl.map(op.params, function(p, i)
      return ("a[%d].%s"):format(i - 1, members[p.info.kind])
   end)
end

local bodies = {
   tensor = "return (out->v[0] = tlo_$name($args)) != NULL;",
   tensors = "return tlo_$name($args, out->v);",
   self = "return tlo_$name($args);",
   list = [[tl_Tensors list = {0, NULL};
  return tlo_$name($args, &list) && tli_call_results("$name", &list, out);]],
}

-- Returns the form in which programs call an operator, or nil if programs cannot call the operator.
-- Programs cannot call operators that only derivatives use, because these do not check their
-- arguments, nor operators whose result is a number or a boolean.
local function form_of(op, inplace)
   if op.internal and not op.hooked then return nil end
   if inplace or op.inplace_form then
      local first = op.params[1].type
      return (first == "Tensor" or first == "Tensor[]") and "self" or nil
   end
   if op.results.kind == "value" then return op.results.info.push == "tensors" and "list" or nil end
   return op.results.kind
end

local function flags_of(op, inplace)
   local flags = {}
   if inplace or op.inplace_form then flags[#flags + 1] = "TLI_CALL_WRITES" end
   if op.waits and op.waits:find "depends on the data" then flags[#flags + 1] = "TLI_CALL_SIZES" end
   if op.results.kind == "value" and op.waits then flags[#flags + 1] = "TLI_CALL_READS" end
   if op.results.kind == "value" and op.results.info.push ~= "tensors" then
      flags[#flags + 1] = "TLI_CALL_VALUE"
   end
   if op.pointwise then flags[#flags + 1] = "TLI_CALL_ELEMENTWISE" end
   return #flags > 0 and table.concat(flags, " | ") or "0"
end

local function emit_row(op, inplace, left_out)
   local name = op.cname .. (inplace and "_" or "")
   local form = not left_out and form_of(op, inplace)
   local results = form == "tensor" and 1 or form == "tensors" and op.results.count
      or form == "list" and -1 or 0
   local body = form and fill(bodies[form], {name = name, args = table.concat(read(op), ", ")})
   return fill([[
?form|static bool run_$name(const tli_CallArg *a, tl_Tensors *out) {
?form|  (void)a, (void)out;
?form|  $body
?form|}
?params|static const tli_CallParam params_$name[] = {$params};
const tli_Call tli_call_$name = {"$name", $list, $count, $results, $flags, $run};]], {
      form = form, name = name, body = body or "", count = #op.params, results = results,
      flags = flags_of(op, inplace), run = form and "run_" .. name or "NULL",
      list = #op.params > 0 and "params_" .. name or "NULL",
      params = table.concat(cdecl.map(op.params, function(p)
         return ('{"%s", TLI_CALL_%s, %s}'):format(p.name:gsub("_$", ""), p.info.kind, p.optional)
      end), ", "),
   })
end

-- Calls fn(op, false) for the plain form of each operator that has one, and fn(op, true) for each
-- in-place form.
local function each(all, fn)
   for _, op in ipairs(all.ops) do
      if not op.inplace_form or op.results.kind == "self" then fn(op, false) end
      if op.inplace then fn(op, true) end
   end
end

--- Returns calls.h, which declares all rows.
function M.header(all)
   local out = {"/* Generated from src/ops; not to be edited. */",
                "#ifndef TLI_CALLS_H\n#define TLI_CALLS_H\n", '#include "core/observe/trace.h"\n'}
   each(all, function(op, inplace)
      out[#out + 1] = ("extern const tli_Call tli_call_%s;"):format(
         op.cname .. (inplace and "_" or ""))
   end)
   out[#out + 1] = "\n#endif\n"
   return table.concat(out, "\n")
end

--- Returns the text of calls.c: a row for each operator, and a list, sorted by name, of the rows
--- that programs may call.
function M.source(all)
   local out = {"/* Generated from src/ops; not to be edited. */",
                '#include "calls.h"\n#include "ops.h"\n#include "ops/common.h"\n'}
   local names = {}
   each(all, function(op, inplace)
      out[#out + 1] = emit_row(op, inplace, op.left_out)
      if not op.left_out and form_of(op, inplace) then
         names[#names + 1] = op.cname .. (inplace and "_" or "")
      end
   end)
   table.sort(names)
   local rows = cdecl.map(names, function(name) return ("  &tli_call_%s,"):format(name) end)
   out[#out + 1] = ("const tli_Call *const tli_calls[] = {\n%s\n};"):format(
      table.concat(rows, "\n"))
   out[#out + 1] = ("const int tli_calls_count = %d;"):format(#names)
   return table.concat(out, "\n") .. "\n"
end

return M
