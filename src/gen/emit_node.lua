-- emit_node.lua - writes the autograd node that records an operator's call: saved values,
-- derivative, and destructor.

local cdecl = require "cdecl"
local expr = require "expr"
local fill = require "template"
local payload = require "rules"

local M = {}

-- Fields --------------------------------------------------------------------------------------

local function is_saved(field) return field.what == "input" or field.what == "result" end

local function declaration(field)
   if is_saved(field) then
      return ("tli_Saved %s;"):format(field.name)
   elseif field.what == "builtin" then
      return ("%s %s;"):format(field.built.field, field.name)
   elseif field.what == "lengths" then
      return "tli_IntsBuf lengths;"
   end
   local type = field.param.type
   if type:find("%[%]") then return ("tli_IntsBuf %s;"):format(field.name) end
   if type == "string" then return ("tli_Name %s;"):format(field.name) end
   return ("%s%s;"):format(field.param.info.c, field.name)
end

local function emit_struct(op, fields)
   return fill([[
typedef struct Node_$op {
  tli_Node node;
  $fields
} Node_$op;]], {op = op.cname, fields = cdecl.map(fields, declaration)})
end

-- apply_<op>: the derivative --------------------------------------------------------------------

-- Returns a function that finds the values of names in a gradient rule. The generated code fetches
-- a saved tensor where a rule first uses it.
local function apply_lookup(op, byname, compiler, state)
   local grads = {grad = "grads[0]"}
   for k, name in ipairs(op.results.names or {}) do
      grads["grad_" .. name] = ("grads[%d]"):format(k - 1)
   end
   return function(name)
      local field = byname[name]
      if grads[name] then
         return {type = "Tensor", c = grads[name]}
      elseif not field then
         return nil
      elseif field.what == "value" then
         local type = field.param.type
         if payload.is_list(field) then
            return {type = type, c = ("tli_ints(&node_->%s)"):format(name)}
         end
         if type == "string" then return {type = type, c = ("node_->%s.text"):format(name)} end
         return {type = type, c = "node_->" .. name}
      end
      local slot = state.slots[name]
      if not slot then
         slot = compiler:slot()
         state.slots[name] = slot
      end
      if not state.fetched[name] then
         state.fetched[name] = true
         compiler:emit("if (%s == NULL && !tli_saved_get(&node_->%s, node, &%s)) goto done;", slot,
                       name, slot)
      end
      return {type = "Tensor", c = slot}
   end
end

local function apply_builtin(op)
   return function(_, node)
      if node.name == "needs" then
         local edge = op.params[node.args[1].name].edge
         return {type = "bool", c = ("tli_node_wants(node, %d)"):format(edge)}
      elseif node.name == "lengths" then
         return {type = "int[]", c = "tli_ints(&node_->lengths)"}
      end
      local built = payload.builtins[node.name]
      local arg = built and node.args[1]
      if arg and arg.kind == "name" and op.params[arg.name] then
         local name = node.name .. "_" .. arg.name
         local c = built.list and ("tli_ints(&node_->%s)"):format(name) or "node_->" .. name
         return {type = built.type, c = c}
      end
      if built and built.list then
         error(("%s: %s() takes a parameter of the operator"):format(op.cname, node.name), 0)
      end
   end
end

local function emit_rule(compiler, rule)
   local indent = #compiler.lines + 1
   compiler:emit("if (%s) {", payload.wants(rule))
   local target = rule.targets[1]
   if #rule.targets > 1 then
      local slots = compiler:call_several(rule.tree, #rule.targets)
      for i, p in ipairs(rule.targets) do
         compiler:emit("if (%s && tli_node_wants(node, %d)) out[%d] = tli_retain(%s);",
                       slots[i], p.edge, p.edge, slots[i])
      end
   elseif target.type == "Tensor[]" then
      local called = compiler.env.table.byname[rule.tree.name]
      compiler:emit("tl_Tensors list = {0, NULL};")
      local arguments = compiler:arguments(called, rule.tree.args)
      compiler:emit("if (!tlo_%s(%s, &list)) goto done;", called.cname, arguments)
      compiler:emit("tli_tensors_move(&list, out);")
   else
      local value = compiler:compile(rule.tree)
      if value.type ~= "Tensor" then
         compiler:fail("the derivative of %s is not a tensor", target.name)
      end
      compiler:emit("out[%d] = tli_retain(%s);", target.edge, value.c)
   end
   for i = indent + 1, #compiler.lines do
      compiler.lines[i] = "  " .. compiler.lines[i]
   end
   compiler:emit("}")
end

local function emit_apply(op, all, rules, fields, byname)
   local state = {slots = {}}
   local env = {table = all, what = "derivative of " .. op.cname, builtin = apply_builtin(op)}
   local compiler = expr.compiler(env)
   env.lookup = apply_lookup(op, byname, compiler, state)
   for _, rule in ipairs(rules) do
      state.fetched = {}
      emit_rule(compiler, rule)
   end
   return fill([[
static bool apply_$op(tli_Node *node, tl_Tensor *const *grads, tl_Tensor **out) {
?fields|  Node_$op *node_ = (Node_$op *)node;
  tl_Tensor *t[$slots] = {NULL};
  bool ok = false;
  (void)grads;
  $lines
  ok = true;
?fails|done:
  tli_apply_end(t, $slots, ok, out, node->ninputs);
  return ok;
}]], {
      op = op.cname, fields = fields, slots = math.max(compiler.slots, 1), lines = compiler.lines,
      fails = table.concat(compiler.lines):find("goto done"),
   })
end

-- drop_<op>, free_<op>: the end of a node -------------------------------------------------------

-- Writes a C function of the node, such as its destructor, that calls the C function `what` for
-- each of the given fields. Returns the name and the text of the written function, or "NULL" if
-- there are no fields.
local function emit_each(op, name, what, fields)
   if #fields == 0 then return "NULL" end
   local lines = cdecl.map(fields, function(f)
      return ("%s(&((Node_%s *)node)->%s);"):format(what, op.cname, f.name)
   end)
   local full = name .. "_" .. op.cname
   return full, fill([[
static void $name(tli_Node *node) {
  $lines
}]], {name = full, lines = lines})
end

local function emit_drop(op, fields)
   local saved = {}
   for _, f in ipairs(fields) do
      if is_saved(f) then saved[#saved + 1] = f end
   end
   return emit_each(op, "drop", "tli_saved_drop", saved)
end

local function emit_free(op, fields)
   local lists = {}
   for _, f in ipairs(fields) do
      if payload.is_list(f) then lists[#lists + 1] = f end
   end
   return emit_each(op, "free", "tli_ints_drop", lists)
end

-- node_<op>: a node connected to the inputs, with what it saves of them ---------------------------

-- Returns C code that saves an input. The in-place form saves a copy of an input that it will
-- overwrite.
local function save_input(op, f, rules)
   local call = (op.inplace or op.inplace_form)
      and ("tli_save_before(&node_->%s, %s, inplace ? %s : NULL)"):format(
         f.name, f.name, op.params[1].name)
      or ("tli_save(&node_->%s, %s)"):format(f.name, f.name)
   return ("if ((%s) && !%s) goto fail;"):format(payload.wants_field(f, rules), call)
end

-- Returns C code that fills in a field when the node is created. Returns nil for a result, because
-- results are saved later.
local function save(op, f, rules)
   if f.what == "input" then
      return save_input(op, f, rules)
   elseif f.what == "lengths" then
      return ("if (!tli_ints_lengths(&node_->lengths, %s, %s)) goto fail;"):format(f.list, f.dim)
   elseif f.what == "result" then
      return nil
   end
   local value = f.what == "builtin" and f.c or f.name
   if payload.is_list(f) then
      return ("if (!tli_ints_keep(&node_->%s, %s)) goto fail;"):format(f.name, value)
   elseif f.what == "value" and f.param.type == "string" then
      return ("tli_name_keep(&node_->%s, %s);"):format(f.name, value)
   end
   return ("node_->%s = %s;"):format(f.name, value)
end

-- If the operator's input is a list of tensors, returns the name of this input. Returns nil if the
-- inputs are single tensors.
local function input_list(edges)
   return edges[1] and edges[1].type == "Tensor[]" and edges[1].name or nil
end

local function connections(edges)
   local list = input_list(edges)
   if list then
      return {("for (int i = 0; i < node->ninputs; i++)\n"
         .. "  if (!tli_node_connect(node, i, %s.v[i])) goto fail;"):format(list)}
   end
   return cdecl.map(edges, function(p)
      return ("if (!tli_node_connect(node, %d, %s)) goto fail;"):format(p.edge, p.name)
   end)
end

local function emit_node(op, rules, fields, edges)
   local list, connects, saves = input_list(edges), connections(edges), {}
   for _, f in ipairs(fields) do saves[#saves + 1] = save(op, f, rules) end
   local body = table.concat(connects) .. table.concat(saves)
   return fill([[
static tli_Node *node_$op($params) {
  tli_Node *node = tli_node_new(&type_$op, sizeof(Node_$op), $inputs, $outputs);
  if (node == NULL) return NULL;
  (void)inplace;
  $unused
  $connects
?saves|  Node_$op *node_ = (Node_$op *)node;
  $saves
  return node;
?fails|fail:
?fails|  tli_node_release(node);
?fails|  return NULL;
}]], {
      op = op.cname,
      params = table.concat({"bool inplace", table.unpack(cdecl.parameters(op))}, ", "),
      inputs = list and ("(int)%s.n"):format(list) or #edges, outputs = op.results.count or 1,
      unused = cdecl.map(op.params, function(p) return ("(void)%s;"):format(p.name) end),
      connects = connects, saves = saves, fails = body:find("goto fail"),
   })
end

-- finish_<op>: makes the results the node's and saves those that the derivative uses --------------

local function emit_finish(op, rules, fields)
   local outputs, saves = {}, {}
   for k, name in ipairs(op.results.names) do
      if not (op.nograd and op.nograd[name]) then
         -- skips a result that is NULL because the caller did not request it
         local given = op.results.count > 1 and ("results[%d] && "):format(k - 1) or ""
         outputs[#outputs + 1] = ("if (%s!tli_node_output(node, %d, results[%d])) return false;")
            :format(given, k - 1, k - 1)
      end
   end
   for _, f in ipairs(fields) do
      if f.what == "result" then
         saves[#saves + 1] =
            ("if ((%s) && !tli_save_result(&((Node_%s *)node)->%s, results[%d], %d)) return false;")
            :format(payload.wants_field(f, rules), op.cname, f.name, f.index, f.index)
      end
   end
   return fill([[
static bool finish_$op(tli_Node *node, tl_Tensor *const *results) {
  $outputs
  $saves
  return true;
}]], {op = op.cname, outputs = outputs, saves = saves})
end

--- Returns C code that saves values after the in-place write. If the derivative uses the result,
--- self is saved.
function M.inplace_saves(op, rules, fields)
   local out = {}
   for _, f in ipairs(fields) do
      if f.what == "result" then
         out[#out + 1] =
            ("if (node && (%s)) ok = ok && tli_save_result(&((Node_%s *)node)->%s, self, 0);")
            :format(payload.wants_field(f, rules), op.cname, f.name)
      end
   end
   return out
end

--- Returns a C condition that is true if a call with these inputs must be recorded.
function M.recording(edges)
   local list = input_list(edges)
   if list then return ("tli_recording(%s.v, %s.n)"):format(list, list) end
   local inputs = table.concat(cdecl.map(edges, function(p) return p.name end), ", ")
   return ("tli_recording((tl_Tensor *[]){%s}, %d)"):format(inputs, #edges)
end

--- Returns the C code of the node's type and functions.
function M.emit(op, all, rules, fields, byname, edges)
   local parts = {emit_struct(op, fields), emit_apply(op, all, rules, fields, byname)}
   local drop, drop_text = emit_drop(op, fields)
   local free, free_text = emit_free(op, fields)
   if drop_text then parts[#parts + 1] = drop_text end
   if free_text then parts[#parts + 1] = free_text end
   parts[#parts + 1] = fill([[
static const tli_NodeType type_$op = {"$name", apply_$op, $drop, $whole, $free, $title};]], {
      op = op.cname, name = op.lua, drop = drop, free = free, whole = op.materialize ~= false,
      title = op.node and ('"%s"'):format(op.node) or "NULL",
   })
   parts[#parts + 1] = emit_node(op, rules, fields, edges)
   if not op.inplace_form then parts[#parts + 1] = emit_finish(op, rules, fields) end
   return table.concat(parts, "\n")
end

return M
