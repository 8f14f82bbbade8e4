-- emit_ops.lua - writes the C functions of each operator: the forward function tlo_<op> and the
-- in-place form tlo_<op>_. emit_node.lua writes the node that records a call.

local cdecl = require "cdecl"
local emit_node = require "emit_node"
local expr = require "expr"
local fill = require "template"
local payload = require "rules"
local profile = require "emit_profile"

local M = {prototype = cdecl.prototype}

local map, names, inplace_prototype = cdecl.map, cdecl.names, cdecl.inplace_prototype
local tensor_types, join = cdecl.tensor_types, table.concat

-- Returns the operator's argument list in C, with `first` inserted in front.
local function names_after(first, op) return join({first, table.unpack(names(op))}, ", ") end

-- Returns the operator's argument list in C, with `first` in place of the first argument.
local function names_but_first(first, op)
   local args = names(op)
   args[1] = first
   return join(args, ", ")
end

-- Forward calls -----------------------------------------------------------------------------------

local function pointwise_arrays(op)
   local tensors, scalars = {}, {}
   for _, p in ipairs(op.params) do
      if tensor_types[p.type] then
         tensors[#tensors + 1] = p.name
      elseif p.type == "Number" then
         local fitting = ("tli_fitting(%s, %s)"):format(p.name, tensors[1])
         scalars[#scalars + 1] = op.pointwise.truncates and fitting or p.name
      elseif p.type == "int" then
         scalars[#scalars + 1] = ("tli_int(%s)"):format(p.name)
      end
   end
   local params = #scalars > 0 and ("(tl_Scalar[]){%s}"):format(join(scalars, ", ")) or "NULL"
   return ("(tl_Tensor *[]){%s}"):format(join(tensors, ", ")), params, #tensors, #scalars
end

-- Returns a C call. If the operator's entry has a check for its numeric arguments, the check comes
-- before the call.
local function checked(op, format, call)
   if not op.pointwise.check then return call end
   local scalars = {}
   for _, p in ipairs(op.params) do
      if p.type == "Number" then scalars[#scalars + 1] = p.name end
   end
   return format:format(("tli_check_%s(%s)"):format(op.pointwise.check, join(scalars, ", ")), call)
end

local promotions = {
   number = "TLI_TYPES_NUMBER", floating = "TLI_TYPES_FLOATING", integer = "TLI_TYPES_INTEGER",
}

local function emit_pointwise_spec(op)
   local _, _, ntensors, nscalars = pointwise_arrays(op)
   local p = op.pointwise
   local complex = op.complex and (p.real and "TLI_COMPLEX_TO_REAL" or "TLI_COMPLEX_TAKEN")
      or "TLI_COMPLEX_REFUSED"
   local row = "{\"%s\", TLK_%s, %d, %d, %s, %s, %s, %s}"
   return ("static const tli_PointwiseSpec spec_%s = " .. row .. ";"):format(
      op.cname, op.lua, p.kernel or op.cname, ntensors, nscalars, promotions[p.types],
      tostring(p.out == "bool"), tostring(p.bool ~= false), complex)
end

local function forward_call(op)
   if op.pointwise then
      local tensors, params = pointwise_arrays(op)
      local call = ("tli_pointwise(&spec_%s, %s, %s)"):format(op.cname, tensors, params)
      return checked(op, "%s ? %s : NULL", call)
   elseif op.inplace == "native" then
      return nil
   end
   local args = names(op)
   if op.results.kind == "tensors" or op.results.kind == "value" then args[#args + 1] = "out" end
   return ("%s_%s(%s)"):format(op.host and "host" or "tli_op", op.cname, join(args, ", "))
end

-- Writes an operator that is implemented only for the CPU but accepts inputs on any device.
local function emit_host(op)
   local single = op.results.kind == "tensor"
   local tensors, args, moved = {}, names(op), names(op)
   for i, p in ipairs(op.params) do
      if p.type == "Tensor" then
         moved[i] = ("moved_[%d]"):format(#tensors)
         tensors[#tensors + 1] = p.name
      end
   end
   if not single then args[#args + 1], moved[#moved + 1] = "out", "out" end
   return fill([[
static $prototype {
  tl_Device device_ = tli_device($first);
?elsewhere|  if (device_.type == TL_CPU || device_.type == TL_META) return tli_op_$op($args);
?own|  if (tli_has_lapack($first)) return tli_op_$op($args);
?single|  tl_Tensor *out[1];
  tl_Tensor *moved_[$count];
  bool ok_ = tli_to_host((tl_Tensor *[]){$tensors}, moved_, $count);
?single|  ok_ = ok_ && (out[0] = tli_op_$op($moved)) != NULL;
?several|  ok_ = ok_ && tli_op_$op($moved);
  tli_release_results(moved_, $count);
  ok_ = ok_ && tli_from_host(device_, out, $results);
  return $made;
}]], {
      prototype = M.prototype(op, "host"), first = tensors[1], op = op.cname, single = single,
      own = op.device_lapack, elsewhere = not op.device_lapack,
      several = not single, args = join(args, ", "), moved = join(moved, ", "), count = #tensors,
      tensors = join(tensors, ", "), results = op.results.count,
      made = single and "ok_ ? out[0] : NULL" or "ok_",
   })
end

-- Template of the plain form of an operator whose C code works in place. The generated function
-- clones the input and lets the C code write to the clone.
local native = [[
tl_Tensor *made_ = tli_clone_for("$name", $self);
if (made_ && !tli_op_${op}_($args)) tli_release(made_), made_ = NULL;]]
local one_result = [[
tl_Tensor *made_ = $call;]]
local several_results = [[
for (int i = 0; i < $count; i++) out[i] = NULL;
if (!$call) return false;]]

-- Returns a line of C that refuses complex arguments, or nil if the operator takes them.
local function refuse_complex(op, failed)
   local given = not op.complex and not op.pointwise and cdecl.complex_arguments(op)
   if not given then return nil end
   return ("if (%s) return tli_refuse_complex(\"%s\"), %s;"):format(given, op.lua, failed)
end

local function emit_function(op, edges, recorded)
   local single = op.results.kind == "tensor"
   local prototype = M.prototype(op)
   if op.results.kind == "value" then
      return ("%s {\n  return %s;\n}"):format(prototype, forward_call(op))
   end
   local call = op.inplace == "native" and native or single and one_result or several_results
   return fill([[
$prototype {
  $refuse
  $call
?view|  if (made_ && !tli_view_of(made_, $self)) tli_release(made_), made_ = NULL;
?recorded|  if ($given$recording) {
?recorded|    tli_Node *node = node_$op($args);
?recorded|    bool ok = node && finish_$op(node, $results);
?recorded|    tli_node_release(node);
?recorded|    if (!ok) return tli_release_results($results, $count), $failed;
?recorded|  }
  return $made;
}]], {
      refuse = {refuse_complex(op, single and "NULL" or "false")},
      prototype = prototype, view = op.view, recorded = recorded, op = op.cname,
      call = {fill(call, {
         name = op.lua, self = op.params[1] and op.params[1].name, op = op.cname,
         args = names_but_first("made_", op), count = op.results.count, call = forward_call(op),
      })},
      self = op.params[1] and op.params[1].name, given = single and "made_ && " or "",
      recording = recorded and emit_node.recording(edges), args = names_after("false", op),
      results = single and "&made_" or "out", count = op.results.count,
      failed = single and "NULL" or "false", made = single and "made_" or "true",
   })
end

-- In place ----------------------------------------------------------------------------------------

local function write_call(op)
   if op.pointwise then
      local tensors, params = pointwise_arrays(op)
      local call = ("tli_pointwise_into(&spec_%s, %s, %s, self)"):format(op.cname, tensors, params)
      return checked(op, "(%s && %s)", call)
   elseif op.inplace == "native" or op.inplace == "own" or op.inplace_form then
      local name = op.inplace_form and op.cname or op.cname .. "_"
      return ("tli_op_%s(%s)"):format(name, join(names(op), ", "))
   end
   return fill([[tli_write_back("${name}_", self, tli_op_$op($args))]],
               {name = op.lua, op = op.cname, args = join(names(op), ", ")})
end

local function emit_inplace(op, rules, fields, edges, recorded)
   return fill(recorded and [[
$prototype {
  $refuse
  if (!$check("$name", self)) return false;
  tli_Node *node = NULL;
  if ($recording && (node = node_$op($args)) == NULL) return false;
  bool ok = $write;
  ok = ok && tli_inplace_done("$name", self, node);
  $saves
  tli_node_release(node);
  return ok;
}]] or [[
$prototype {
  $refuse
  if (!$check("$name", self)) return false;
  return $write && tli_inplace_done("$name", self, NULL);
}]], {
      refuse = {refuse_complex(op, "false")},
      prototype = op.inplace_form and M.prototype(op) or inplace_prototype(op),
      name = op.inplace_form and op.lua or op.lua .. "_", op = op.cname, write = write_call(op),
      check = op.entry.overlap and "tli_inplace_check_fill" or "tli_inplace_check",
      recording = recorded and emit_node.recording(edges), args = names_after("true", op),
      saves = recorded and emit_node.inplace_saves(op, rules, fields),
   })
end

-- Compositions ------------------------------------------------------------------------------------

-- Writes the C function of a composite operator whose definition is an expression.
local function emit_expr(op, all)
   local env = {table = all, what = "expression of " .. op.cname}
   function env.lookup(name)
      local p = op.params[name]
      return p and {type = p.type == "Operand" and "Tensor" or p.type, c = name}
   end
   function env.builtin(_, node)
      local built = payload.builtins[node.name]
      local arg = built and node.args[1]
      if arg and arg.kind == "name" and op.params[arg.name] then
         return {type = built.type, c = (built.c:gsub("%%s", arg.name))}
      end
   end
   local compiler = expr.compiler(env)
   local value = compiler:compile(expr.parse(op.expr))
   if value.type ~= "Tensor" then compiler:fail("gives no tensor") end
   return fill([[
$prototype {
  tl_Tensor *t[$slots] = {NULL};
  tl_Tensor *made_ = NULL;
  $unused
  $lines
  made_ = tli_retain($value);
?fails|done:
  tli_release_results(t, $slots);
  return made_;
}]], {
      prototype = M.prototype(op), slots = math.max(compiler.slots, 1), lines = compiler.lines,
      unused = map(op.params, function(p) return ("(void)%s;"):format(p.name) end),
      value = value.c, fails = join(compiler.lines):find("goto done"),
   })
end

local function emit_composite_inplace(op)
   local inputs = {}
   for _, p in ipairs(op.params) do
      if p.type == "Tensor" or p.type == "Operand" then inputs[#inputs + 1] = p.name end
   end
   return fill([[
$prototype {
  if (!tli_inplace_check("${name}_", self)) return false;
  tl_Tensor *from_ = tli_inplace_source((tl_Tensor *[]){$inputs}, $count);
  tl_Tensor *made_ = from_ ? tlo_$op($args) : NULL;
  tli_release(from_);
  bool ok = made_ && tli_inplace_fits("${name}_", self, made_) && tlo_copy_(self, made_, false);
  tli_release(made_);
  return ok;
}]], {
      prototype = inplace_prototype(op), name = op.lua, op = op.cname, count = #inputs,
      inputs = join(inputs, ", "), args = names_but_first("from_", op),
   })
end

-- Writes tlo_<op> for a hand-written operator whose calls are always reported to the profiler and
-- the tracer. This is necessary if the operator has its own row in profiles, or if the binding
-- calls the C function and a tracer must see the operator as a whole.
local function emit_counted(op)
   local args = names(op)
   if op.results.kind == "tensors" or op.results.kind == "value" then args[#args + 1] = "out" end
   return fill([[
$prototype {
  return tli_op_$op($args);
}]], {prototype = M.prototype(op), op = op.cname, args = join(args, ", ")})
end

-- Files -------------------------------------------------------------------------------------------

-- Writes the functions of an operator that the build leaves out. They fail with a message that
-- names the operator. The functions are weak symbols, because the build may still contain a
-- composition's hand-written C code, which defines a function of the same name.
local function emit_left_out(op)
   local functions = {{M.prototype(op), op.results.kind == "tensor" and "NULL" or "false"}}
   if op.inplace_form then functions = {{inplace_prototype(op):gsub("_%(", "("), "false"}} end
   if op.inplace then functions[#functions + 1] = {inplace_prototype(op), "false"} end
   return join(map(functions, function(f)
      return fill([[
__attribute__((weak)) $prototype {
  $unused
?out|  (void)out;
  tli_left_out("$name");
  return $failed;
}]], {
         prototype = f[1], failed = f[2], name = op.internal and op.cname or op.lua,
         unused = map(names(op), function(name) return ("(void)%s;"):format(name) end),
         out = f[1]:find "%*%*?out%)$",
      })
   end), "\n")
end

local function emit_op(op, all)
   if op.left_out then return emit_left_out(op) end
   local parts = {("#line %d \"%s\""):format(op.line, op.file)}
   local function add(text) parts[#parts + 1] = text end
   if op.composite or op.expr then
      if op.expr then
         add(profile.hooked(op, emit_expr(op, all)))
      elseif op.flops or op.hooked then
         add(profile.hooked(op, emit_counted(op), op.inplace_form, not op.flops))
      end
      if op.inplace and op.inplace ~= "own" then add(emit_composite_inplace(op)) end
      return #parts > 1 and join(parts, "\n") or nil
   end
   local rules = payload.rules_of(op)
   local edges = payload.edges_of(op, rules)
   local differentiable = op.grad ~= nil or (op.inplace_form and not op.nondiff)
   local recorded = differentiable and (all.records or not all.inference)
   local fields, byname = payload.fields_of(op, rules)
   if op.pointwise then add(emit_pointwise_spec(op)) end
   if op.host then add(emit_host(op)) end
   if recorded then add(emit_node.emit(op, all, rules, fields, byname, edges)) end
   if not op.inplace_form then
      add(profile.hooked(op, emit_function(op, edges, recorded)))
   end
   if op.inplace or op.inplace_form then
      add(profile.hooked(op, emit_inplace(op, rules, fields, edges, recorded), true))
   end
   return join(parts, "\n")
end

--- Returns the C source of a family's operators.
function M.family(family, all)
   local out = {"/* Generated from " .. family.file .. "; not to be edited. */",
                '#include "calls.h"\n#include "core/observe/profile.h"\n#include "ops.h"\n'
                   .. '#include "ops/common.h"\n'
                   .. "#include <math.h>\n"
                   .. (all.inference and '#include "ops/left_out.h"\n' or "")}
   for _, op in ipairs(family.ops) do
      out[#out + 1] = emit_op(op, all)
   end
   return join(out, "\n\n") .. "\n"
end

--- Returns the text of ops.h, which declares the operators' C functions and the hand-written
--- functions that implement them.
function M.header(all)
   local out = {"/* Generated from src/ops; not to be edited. */",
                "#ifndef TLI_OPS_H\n#define TLI_OPS_H\n",
                "#include \"core/device/generator.h\"\n#include \"core/tensor/tensor.h\"\n",
                "/* Operators, differentiable; new references, NULL or false on failure. */"}
   local natives = {}
   for _, op in ipairs(all.ops) do
      out[#out + 1] = M.prototype(op) .. ";"
      if op.inplace then out[#out + 1] = inplace_prototype(op) .. ";" end
      if not (op.composite and not op.flops and not op.hooked or op.expr or op.pointwise) then
         if op.inplace ~= "native" then natives[#natives + 1] = M.prototype(op, "tli_op") .. ";" end
         if op.inplace == "native" or op.inplace == "own" then
            natives[#natives + 1] = inplace_prototype(op, "tli_op") .. ";"
         end
      end
   end
   out[#out + 1] = "\n/* What src/ops implements for them; these make no node. */"
   out[#out + 1] = join(natives, "\n")
   out[#out + 1] = "\n#endif\n"
   return join(out, "\n")
end

return M
