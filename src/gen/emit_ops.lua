-- emit_ops.lua - writes, for each operator, the C functions tlo_<op>: the forward call, and the node
-- that records it: what it saves, how it differentiates, how it is freed.

local expr = require "expr"

local M = {}

local tensor_types = {Tensor = true, Operand = true, ["Tensor[]"] = true}

-- Text helpers -------------------------------------------------------------------------------------

local function map(list, fn)
   local out = {}
   for i, item in ipairs(list) do
      out[i] = fn(item, i)
   end
   return out
end

local function join(list, sep) return table.concat(list, sep) end

local function parameters(op)
   return map(op.params, function(p) return p.info.c .. p.name end)
end

local function names(op)
   return map(op.params, function(p) return p.name end)
end

local function with_void(list) return #list == 0 and "void" or join(list, ", ") end

--- The C prototype of tlo_<op> (or another prefix) without semicolon.
function M.prototype(op, prefix)
   local list, kind = parameters(op), op.results.kind
   local result = "bool "
   if kind == "tensor" then
      result = "tl_Tensor *"
   elseif kind == "tensors" then
      list[#list + 1] = "tl_Tensor **out"
   elseif kind == "value" then
      list[#list + 1] = op.results.info.c .. "*out"
   end
   return ("%s%s_%s(%s)"):format(result, prefix or "tlo", op.cname, with_void(list))
end

local function inplace_prototype(op, prefix)
   return ("bool %s_%s_(%s)"):format(prefix or "tlo", op.cname, join(parameters(op), ", "))
end

-- What is differentiated ---------------------------------------------------------------------------

-- Gradient rules in the order of the parameters: {targets = {param...}, tree =, text =}.
local function rules_of(op)
   local rules = {}
   for key, text in pairs(op.grad or {}) do
      local rule = {targets = {}, text = text, tree = expr.parse(text)}
      for name in key:gmatch("[%w_]+") do
         rule.targets[#rule.targets + 1] = op.params[name]
      end
      rules[#rules + 1] = rule
   end
   local position = {}
   for i, p in ipairs(op.params) do position[p] = i end
   table.sort(rules, function(a, b) return position[a.targets[1]] < position[b.targets[1]] end)
   return rules
end

-- Inputs that have an edge; self comes first where the operator also writes in place.
local function edges_of(op, rules)
   local wanted = {}
   if op.inplace or op.inplace_form then
      wanted[op.params[1]] = true
   end
   for _, rule in ipairs(rules) do
      for _, p in ipairs(rule.targets) do wanted[p] = true end
   end
   local edges = {}
   for _, p in ipairs(op.params) do
      if wanted[p] then
         p.edge = #edges
         edges[#edges + 1] = p
      end
   end
   return edges
end

local builtins = {
   sizes = {type = "int[]", field = "tli_IntsBuf", list = true, c = "(tl_Ints){%s->ndim, %s->sizes}"},
   strides = {type = "int[]", field = "tli_IntsBuf", list = true, c = "(tl_Ints){%s->ndim, %s->strides}"},
   offset = {type = "int", field = "int64_t", c = "%s->offset"},
   numel = {type = "int", field = "int64_t", c = "%s->numel"},
   ndim = {type = "int", field = "int64_t", c = "(int64_t)%s->ndim"},
   dtype = {type = "dtype", field = "tl_DType", c = "(tl_DType)%s->dtype"},
   device = {type = "device", field = "tl_Device", c = "tli_device(%s)"},
}

-- The payload: everything the rules use, as fields in order of first use.
local function collect_fields(op, rules)
   local fields, byname = {}, {}
   local function add(name, field, rule)
      local f = byname[name]
      if not f then
         f = field
         f.name, f.rules = name, {}
         byname[name] = f
         fields[#fields + 1] = f
      end
      f.rules[rule] = true
   end
   local results = {}
   for k, name in ipairs(op.results.names or {"self"}) do results[name] = k - 1 end
   for _, rule in ipairs(rules) do
      local hidden = {}
      expr.walk(rule.tree, function(node)
         if hidden[node] then return end
         local built = node.kind == "call" and builtins[node.name]
         local arg = built and node.args[1]
         if arg and arg.kind == "name" and op.params[arg.name] then
            hidden[arg] = true
            add(node.name .. "_" .. arg.name,
                {what = "builtin", c = built.c:gsub("%%s", arg.name), built = built}, rule)
         elseif node.kind == "call" and node.name == "lengths" then
            hidden[node.args[1]], hidden[node.args[2]] = true, true
            add("lengths", {what = "lengths", list = node.args[1].name, dim = node.args[2].name}, rule)
         elseif node.kind == "call" and node.name == "needs" then
            hidden[node.args[1]] = true
         elseif node.kind == "name" then
            local p, k = op.params[node.name], results[node.name]
            if p and tensor_types[p.type] then
               add(node.name, {what = "input", param = p}, rule)
            elseif p then
               add(node.name, {what = "value", param = p}, rule)
            elseif k and not (op.inplace_form and node.name == "self") then
               add(node.name, {what = "result", index = k}, rule)
            end
         end
      end)
   end
   return fields, byname
end

local function field_decl(field)
   if field.what == "input" or field.what == "result" then
      return ("  tli_Saved %s;"):format(field.name)
   elseif field.what == "builtin" then
      return ("  %s %s;"):format(field.built.field, field.name)
   elseif field.what == "lengths" then
      return "  tli_IntsBuf lengths;"
   end
   local type = field.param.type
   if type:find("%[%]") then return ("  tli_IntsBuf %s;"):format(field.name) end
   if type == "string" then return ("  tli_Name %s;"):format(field.name) end
   return ("  %s%s;"):format(field.param.info.c, field.name)
end

local function is_list(field)
   return field.what == "lengths" or (field.what == "builtin" and field.built.list)
      or (field.what == "value" and field.param.type:find("%[%]") ~= nil)
end

-- The node's functions -----------------------------------------------------------------------------

-- A list has as many edges as tensors: which of them is wanted is left to the engine.
local function wants(rule)
   if rule.targets[1].type == "Tensor[]" then return "true" end
   return join(map(rule.targets, function(p) return ("tli_node_wants(node, %d)"):format(p.edge) end), " || ")
end

-- Names as a rule sees them inside apply: saved tensors are fetched on first use in each rule.
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
         if is_list(field) then return {type = type, c = ("tli_ints(&node_->%s)"):format(name)} end
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
         compiler:emit("if (%s == NULL && !tli_saved_get(&node_->%s, node, &%s)) goto done;", slot, name, slot)
      end
      return {type = "Tensor", c = slot}
   end
end

local function apply_builtin(op)
   return function(_, node)
      if node.name == "needs" then
         return {type = "bool", c = ("tli_node_wants(node, %d)"):format(op.params[node.args[1].name].edge)}
      elseif node.name == "lengths" then
         return {type = "int[]", c = "tli_ints(&node_->lengths)"}
      end
      local built = builtins[node.name]
      local arg = built and node.args[1]
      if arg and arg.kind == "name" and op.params[arg.name] then
         local name = node.name .. "_" .. arg.name
         return {type = built.type, c = built.list and ("tli_ints(&node_->%s)"):format(name) or "node_->" .. name}
      end
      if built and built.list then
         error(("%s: %s() takes a parameter of the operator"):format(op.cname, node.name), 0)
      end
   end
end

local function emit_rule(_, compiler, rule)
   local indent = #compiler.lines + 1
   compiler:emit("if (%s) {", wants(rule))
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
      compiler:emit("if (!tlo_%s(%s, &list)) goto done;", called.cname, compiler:arguments(called, rule.tree.args))
      compiler:emit("tli_tensors_move(&list, out);")
   else
      local value = compiler:compile(rule.tree)
      if value.type ~= "Tensor" then
         compiler:fail("the derivative of %s is no tensor", target.name)
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
      emit_rule(op, compiler, rule)
   end
   local out = {("static bool apply_%s(tli_Node *node, tl_Tensor *const *grads, tl_Tensor **out) {"):format(op.cname)}
   local function line(text) out[#out + 1] = text end
   if #fields > 0 then line(("  Node_%s *node_ = (Node_%s *)node;"):format(op.cname, op.cname)) end
   local slots = math.max(compiler.slots, 1)
   line(("  tl_Tensor *t[%d] = {NULL};"):format(slots))
   line("  bool ok = false;")
   line("  (void)grads;")
   for _, text in ipairs(compiler.lines) do line("  " .. text) end
   line("  ok = true;")
   if join(compiler.lines):find("goto done") then line("done:") end
   line(("  tli_apply_end(t, %d, ok, out, node->ninputs);"):format(slots))
   line("  return ok;")
   line("}")
   return join(out, "\n")
end

-- drop_<op> lets go of saved tensors, free_<op> of lists. Either returns the function's name for the
-- node's type, and its text if there is anything to do.
local function emit_drop(op, fields)
   local body = {}
   for _, f in ipairs(fields) do
      if f.what == "input" or f.what == "result" then
         body[#body + 1] = ("  tli_saved_drop(&((Node_%s *)node)->%s);"):format(op.cname, f.name)
      end
   end
   if #body == 0 then return "NULL" end
   return "drop_" .. op.cname,
      ("static void drop_%s(tli_Node *node) {\n%s\n}"):format(op.cname, join(body, "\n"))
end

local function emit_free(op, fields)
   local body = {}
   for _, f in ipairs(fields) do
      if is_list(f) then
         body[#body + 1] = ("  tli_ints_drop(&((Node_%s *)node)->%s);"):format(op.cname, f.name)
      end
   end
   if #body == 0 then return "NULL" end
   return "free_" .. op.cname,
      ("static void free_%s(tli_Node *node) {\n%s\n}"):format(op.cname, join(body, "\n"))
end

local function save_line(op, f, by_rule)
   local condition = {}
   for _, rule in ipairs(by_rule) do
      if f.rules[rule] then condition[#condition + 1] = wants(rule) end
   end
   local guard = join(condition, " || ")
   if f.what == "input" then
      -- what is about to be overwritten is saved as a copy
      local writes = op.inplace or op.inplace_form
      local call = writes and ("tli_save_before(&node_->%s, %s, inplace ? %s : NULL)")
         :format(f.name, f.name, op.params[1].name) or ("tli_save(&node_->%s, %s)"):format(f.name, f.name)
      return ("  if ((%s) && !%s) goto fail;"):format(guard, call)
   elseif f.what == "builtin" then
      local c = f.built.list and ("  if (!tli_ints_keep(&node_->%s, %s)) goto fail;"):format(f.name, f.c)
         or ("  node_->%s = %s;"):format(f.name, f.c)
      return c
   elseif f.what == "lengths" then
      return ("  if (!tli_ints_lengths(&node_->lengths, %s, %s)) goto fail;"):format(f.list, f.dim)
   elseif f.what == "value" and is_list(f) then
      return ("  if (!tli_ints_keep(&node_->%s, %s)) goto fail;"):format(f.name, f.name)
   elseif f.what == "value" and f.param.type == "string" then
      return ("  tli_name_keep(&node_->%s, %s);"):format(f.name, f.name)
   elseif f.what == "value" then
      return ("  node_->%s = %s;"):format(f.name, f.name)
   end
end

-- node_<op>: a node connected to the inputs, with what it saves of them.
local function emit_node(op, rules, fields, edges)
   local list = edges[1] and edges[1].type == "Tensor[]" and edges[1].name
   local head = parameters(op)
   table.insert(head, 1, "bool inplace")
   local out = {("static tli_Node *node_%s(%s) {"):format(op.cname, join(head, ", "))}
   local function line(format, ...) out[#out + 1] = format:format(...) end
   line("  tli_Node *node = tli_node_new(&type_%s, sizeof(Node_%s), %s, %d);", op.cname, op.cname,
        list and ("(int)%s.n"):format(list) or tostring(#edges), op.results.count or 1)
   line("  if (node == NULL) return NULL;")
   line("  (void)inplace;")
   for _, p in ipairs(op.params) do line("  (void)%s;", p.name) end
   if list then
      line("  for (int i = 0; i < node->ninputs; i++)")
      line("    if (!tli_node_connect(node, i, %s.v[i])) goto fail;", list)
   else
      for _, p in ipairs(edges) do
         line("  if (!tli_node_connect(node, %d, %s)) goto fail;", p.edge, p.name)
      end
   end
   local lines = {}
   for _, f in ipairs(fields) do lines[#lines + 1] = save_line(op, f, rules) end
   if #lines > 0 then line("  Node_%s *node_ = (Node_%s *)node;", op.cname, op.cname) end
   for _, text in ipairs(lines) do out[#out + 1] = text end
   line("  return node;")
   line("fail:")
   line("  tli_node_release(node);")
   line("  return NULL;")
   line("}")
   local text = join(out, "\n")
   if not text:find("goto fail") then text = text:gsub("fail:\n.-\n.-\n}$", "}") end
   return text
end

-- finish_<op>: makes the results the node's and saves those that the derivative uses.
local function emit_finish(op, rules, fields)
   local out = {("static bool finish_%s(tli_Node *node, tl_Tensor *const *results) {"):format(op.cname)}
   for k, name in ipairs(op.results.names) do
      if not (op.nograd and op.nograd[name]) then
         -- of several results some may be missing, those that nobody asked for
         local given = op.results.count > 1 and ("results[%d] && "):format(k - 1) or ""
         out[#out + 1] = ("  if (%s!tli_node_output(node, %d, results[%d])) return false;"):format(given, k - 1, k - 1)
      end
   end
   for _, f in ipairs(fields) do
      if f.what == "result" then
         local condition = {}
         for _, rule in ipairs(rules) do
            if f.rules[rule] then condition[#condition + 1] = wants(rule) end
         end
         out[#out + 1] = ("  if ((%s) && !tli_save_result(&((Node_%s *)node)->%s, results[%d], %d)) return false;")
            :format(join(condition, " || "), op.cname, f.name, f.index, f.index)
      end
   end
   out[#out + 1] = "  return true;\n}"
   return join(out, "\n")
end

-- For an in-place form: saves of the results only (self after the write).
local function inplace_saves(op, rules, fields)
   local out = {}
   for _, f in ipairs(fields) do
      if f.what == "result" then
         local condition = {}
         for _, rule in ipairs(rules) do
            if f.rules[rule] then condition[#condition + 1] = wants(rule) end
         end
         out[#out + 1] = ("  if (node && (%s)) ok = ok && tli_save_result(&((Node_%s *)node)->%s, self, 0);")
            :format(join(condition, " || "), op.cname, f.name)
      end
   end
   return out
end

-- Forward calls ------------------------------------------------------------------------------------

local function pointwise_arrays(op)
   local tensors, scalars = {}, {}
   for _, p in ipairs(op.params) do
      if tensor_types[p.type] then
         tensors[#tensors + 1] = p.name
      elseif p.type == "Number" then
         scalars[#scalars + 1] = op.pointwise.truncates and ("tli_fitting(%s, %s)"):format(p.name, tensors[1]) or p.name
      elseif p.type == "int" then
         scalars[#scalars + 1] = ("tli_int(%s)"):format(p.name)
      end
   end
   local params = #scalars > 0 and ("(tl_Scalar[]){%s}"):format(join(scalars, ", ")) or "NULL"
   return ("(tl_Tensor *[]){%s}"):format(join(tensors, ", ")), params, #tensors, #scalars
end

-- The call, made only if the operator's numbers pass its check.
local function checked(op, format, call)
   if not op.pointwise.check then return call end
   local scalars = {}
   for _, p in ipairs(op.params) do
      if p.type == "Number" then scalars[#scalars + 1] = p.name end
   end
   return format:format(("tli_check_%s(%s)"):format(op.pointwise.check, join(scalars, ", ")), call)
end

local promotions = {number = "TLI_TYPES_NUMBER", floating = "TLI_TYPES_FLOATING", integer = "TLI_TYPES_INTEGER"}

local function emit_pointwise_spec(op)
   local _, _, ntensors, nscalars = pointwise_arrays(op)
   local p = op.pointwise
   return ("static const tli_PointwiseSpec spec_%s = {\"%s\", TLK_%s, %d, %d, %s, %s, %s};"):format(
      op.cname, op.lua, p.kernel or op.cname, ntensors, nscalars, promotions[p.types],
      tostring(p.out == "bool"), tostring(p.bool ~= false))
end

local function forward_call(op)
   if op.pointwise then
      local tensors, params = pointwise_arrays(op)
      return checked(op, "%s ? %s : NULL", ("tli_pointwise(&spec_%s, %s, %s)"):format(op.cname, tensors, params))
   elseif op.inplace == "native" then
      return nil
   end
   local args = names(op)
   if op.results.kind == "tensors" or op.results.kind == "value" then args[#args + 1] = "out" end
   return ("tli_op_%s(%s)"):format(op.cname, join(args, ", "))
end

local function recording(_, edges)
   if edges[1] and edges[1].type == "Tensor[]" then
      return ("tli_recording(%s.v, %s.n)"):format(edges[1].name, edges[1].name)
   end
   return ("tli_recording((tl_Tensor *[]){%s}, %d)"):format(
      join(map(edges, function(p) return p.name end), ", "), #edges)
end

local function emit_native_functional(op)
   -- clone, then the in-place function on the copy
   local args = names(op)
   args[1] = "made_"
   return {
      ("  tl_Tensor *made_ = tli_clone_for(\"%s\", %s);"):format(op.lua, op.params[1].name),
      ("  if (made_ && !tli_op_%s_(%s)) tli_release(made_), made_ = NULL;"):format(op.cname, join(args, ", ")),
   }
end

local function emit_function(op, edges, recorded)
   local out = {M.prototype(op) .. " {"}
   local function line(format, ...) out[#out + 1] = format:format(...) end
   local kind = op.results.kind
   if op.inplace == "native" then
      for _, text in ipairs(emit_native_functional(op)) do line("%s", text) end
   elseif kind == "tensor" then
      line("  tl_Tensor *made_ = %s;", forward_call(op))
   elseif kind == "tensors" then
      line("  for (int i = 0; i < %d; i++) out[i] = NULL;", op.results.count)
      line("  if (!%s) return false;", forward_call(op))
   else
      line("  return %s;\n}", forward_call(op))
      return join(out, "\n")
   end
   local results = kind == "tensor" and "&made_" or "out"
   local failed = kind == "tensor" and "NULL" or "false"
   if op.view then
      line("  if (made_ && !tli_view_of(made_, %s)) tli_release(made_), made_ = NULL;", op.params[1].name)
   end
   if recorded then
      line("  if (%s%s) {", kind == "tensor" and "made_ && " or "", recording(op, edges))
      line("    tli_Node *node = node_%s(%s);", op.cname, join({"false", table.unpack(names(op))}, ", "))
      line("    bool ok = node && finish_%s(node, %s);", op.cname, results)
      line("    tli_node_release(node);")
      line("    if (!ok) return tli_release_results(%s, %d), %s;", results, op.results.count, failed)
      line("  }")
   end
   line("  return %s;", kind == "tensor" and "made_" or "true")
   line("}")
   return join(out, "\n")
end

local function write_call(op)
   if op.pointwise then
      local tensors, params = pointwise_arrays(op)
      return checked(op, "(%s && %s)", ("tli_pointwise_into(&spec_%s, %s, %s, self)"):format(op.cname, tensors, params))
   elseif op.inplace == "native" or op.inplace_form then
      local name = op.inplace_form and op.cname or op.cname .. "_"
      return ("tli_op_%s(%s)"):format(name, join(names(op), ", "))
   end
   return ("tli_write_back(\"%s_\", self, tli_op_%s(%s))"):format(op.lua, op.cname, join(names(op), ", "))
end

local function emit_inplace(op, rules, fields, edges, recorded)
   local name = op.inplace_form and op.lua or op.lua .. "_"
   local out = {(op.inplace_form and M.prototype(op) or inplace_prototype(op)) .. " {"}
   local function line(format, ...) out[#out + 1] = format:format(...) end
   line("  if (!tli_inplace_check(\"%s\", self)) return false;", name)
   if not recorded then
      line("  return %s && tli_inplace_done(\"%s\", self, NULL);\n}", write_call(op), name)
      return join(out, "\n")
   end
   line("  tli_Node *node = NULL;")
   line("  if (%s && (node = node_%s(%s)) == NULL) return false;", recording(op, edges), op.cname,
        join({"true", table.unpack(names(op))}, ", "))
   line("  bool ok = %s;", write_call(op))
   line("  ok = ok && tli_inplace_done(\"%s\", self, node);", name)
   for _, text in ipairs(inplace_saves(op, rules, fields)) do out[#out + 1] = text end
   line("  tli_node_release(node);")
   line("  return ok;")
   line("}")
   return join(out, "\n")
end

-- A composition written as an expression.
local function emit_expr(op, all)
   local env = {table = all, what = "expression of " .. op.cname}
   function env.lookup(name)
      local p = op.params[name]
      return p and {type = p.type == "Operand" and "Tensor" or p.type, c = name}
   end
   function env.builtin(_, node)
      local built = builtins[node.name]
      local arg = built and node.args[1]
      if arg and arg.kind == "name" and op.params[arg.name] then
         return {type = built.type, c = (built.c:gsub("%%s", arg.name))}
      end
   end
   local compiler = expr.compiler(env)
   local value = compiler:compile(expr.parse(op.expr))
   if value.type ~= "Tensor" then compiler:fail("gives no tensor") end
   local out = {M.prototype(op) .. " {", ("  tl_Tensor *t[%d] = {NULL};"):format(math.max(compiler.slots, 1)),
                "  tl_Tensor *made_ = NULL;"}
   for _, p in ipairs(op.params) do out[#out + 1] = ("  (void)%s;"):format(p.name) end
   for _, text in ipairs(compiler.lines) do out[#out + 1] = "  " .. text end
   out[#out + 1] = ("  made_ = tli_retain(%s);"):format(value.c)
   if join(compiler.lines):find("goto done") then out[#out + 1] = "done:" end
   out[#out + 1] = ("  tli_release_results(t, %d);"):format(math.max(compiler.slots, 1))
   out[#out + 1] = "  return made_;\n}"
   return join(out, "\n")
end

local function emit_composite_inplace(op)
   local inputs, args = {}, names(op)
   for _, p in ipairs(op.params) do
      if p.type == "Tensor" or p.type == "Operand" then inputs[#inputs + 1] = p.name end
   end
   args[1] = "from_"
   return join({
      inplace_prototype(op) .. " {",
      ("  if (!tli_inplace_check(\"%s_\", self)) return false;"):format(op.lua),
      ("  tl_Tensor *from_ = tli_inplace_source((tl_Tensor *[]){%s}, %d);"):format(join(inputs, ", "), #inputs),
      ("  tl_Tensor *made_ = from_ ? tlo_%s(%s) : NULL;"):format(op.cname, join(args, ", ")),
      "  tli_release(from_);",
      ("  bool ok = made_ && tli_inplace_fits(\"%s_\", self, made_) && tlo_copy_(self, made_);"):format(op.lua),
      "  tli_release(made_);",
      "  return ok;\n}",
   }, "\n")
end

local function emit_node_type(op, fields)
   local decls = map(fields, field_decl)
   return join({
      ("typedef struct Node_%s {\n  tli_Node node;%s\n} Node_%s;"):format(
         op.cname, #decls > 0 and "\n" .. join(decls, "\n") or "", op.cname),
   }, "\n")
end

local function emit_op(op, all)
   local parts = {("#line %d \"%s\""):format(op.line, op.file)}
   local function add(text) parts[#parts + 1] = text end
   if op.composite or op.expr then
      if op.expr then add(emit_expr(op, all)) end
      if op.inplace then add(emit_composite_inplace(op)) end
      return #parts > 1 and join(parts, "\n") or nil
   end
   local rules = rules_of(op)
   local edges = edges_of(op, rules)
   local recorded = op.grad ~= nil or (op.inplace_form and not op.nondiff)
   local fields, byname = collect_fields(op, rules)
   if op.pointwise then add(emit_pointwise_spec(op)) end
   if recorded then
      add(emit_node_type(op, fields))
      add(emit_apply(op, all, rules, fields, byname))
      local drop, drop_text = emit_drop(op, fields)
      local free, free_text = emit_free(op, fields)
      if drop_text then add(drop_text) end
      if free_text then add(free_text) end
      local title = op.node and ('"%s"'):format(op.node) or "NULL"
      add(("static const tli_NodeType type_%s = {\"%s\", apply_%s, %s, %s, %s, %s};"):format(
         op.cname, op.lua, op.cname, drop, tostring(op.materialize ~= false), free, title))
      add(emit_node(op, rules, fields, edges))
      if not op.inplace_form then add(emit_finish(op, rules, fields)) end
   end
   if op.inplace_form then
      add(emit_inplace(op, rules, fields, edges, recorded))
   else
      add(emit_function(op, edges, recorded))
      if op.inplace then add(emit_inplace(op, rules, fields, edges, recorded)) end
   end
   return join(parts, "\n")
end

--- The C file of one family.
function M.family(family, all)
   local out = {"/* Generated from " .. family.file .. "; not to be edited. */",
                "#include \"ops.h\"\n#include \"ops/common.h\"\n#include <math.h>\n"}
   for _, op in ipairs(family.ops) do
      out[#out + 1] = emit_op(op, all)
   end
   return join(out, "\n\n") .. "\n"
end

--- ops.h: the operators as C sees them, and the hand-written functions behind them.
function M.header(all)
   local out = {"/* Generated from src/ops; not to be edited. */",
                "#ifndef TLI_OPS_H\n#define TLI_OPS_H\n",
                "#include \"core/random.h\"\n#include \"core/tensor.h\"\n",
                "/* Operators, differentiable; new references, NULL or false on failure. */"}
   local natives = {}
   for _, op in ipairs(all.ops) do
      out[#out + 1] = M.prototype(op) .. ";"
      if op.inplace then out[#out + 1] = inplace_prototype(op) .. ";" end
      if not (op.composite or op.expr or op.pointwise) then
         natives[#natives + 1] = (op.inplace == "native" and inplace_prototype(op, "tli_op")
                                  or M.prototype(op, "tli_op")) .. ";"
      end
   end
   out[#out + 1] = "\n/* What src/ops implements for them; these record nothing. */"
   out[#out + 1] = join(natives, "\n")
   out[#out + 1] = "\n#endif\n"
   return join(out, "\n")
end

--- FNV-1a of a text, 64 bits.
function M.hash(text)
   local hash = 0xcbf29ce484222325
   for i = 1, #text do hash = (hash ~ text:byte(i)) * 0x100000001b3 end
   return hash
end

local function kernel_list(macro, rows)
   local out = {("#define %s(X)"):format(macro)}
   for _, row in ipairs(rows) do out[#out + 1] = "  X(" .. row .. ")" end
   return join(out, " \\\n") .. "\n"
end

--- kernels.h: X-macro lists and enums of the kernels that the table names, and a hash of them and of
--- the headers that host and plugins share.
function M.kernels(all, shared)
   local lists = {pointwise = {}, reduction = {}, scan = {}}
   local seen = {}
   for _, op in ipairs(all.ops) do
      for kind, rows in pairs(lists) do
         local entry = op[kind]
         local name = entry and (entry.kernel or op.cname)
         if entry and not seen[kind .. name] then
            seen[kind .. name] = true
            if kind == "pointwise" then
               local _, _, ntensors = pointwise_arrays(op)
               rows[#rows + 1] = ("%s, %d, %s, %s"):format(name, ntensors, entry.types:upper(),
                                                           (entry.out or "same"):upper())
            else
               rows[#rows + 1] = ("%s, %s"):format(name, (entry.types or "number"):upper())
            end
         end
      end
   end
   local out = {"/* Generated from src/ops; not to be edited. */", "#ifndef TLK_KERNELS_H\n#define TLK_KERNELS_H\n"}
   local titles = {
      pointwise = "/* X(name, inputs, types, result): types NUMBER (I32 I64 F32 F64), FLOATING (F32 F64)\n"
         .. "** or INTEGER (I32 I64); result SAME or BOOL. */",
      reduction = "/* X(name, types) */", scan = "/* X(name, types) */",
   }
   for _, kind in ipairs {"pointwise", "reduction", "scan"} do
      local macro = "TLK_" .. kind:upper() .. "S"
      out[#out + 1] = titles[kind]
      out[#out + 1] = kernel_list(macro, lists[kind])
      local enum = map(lists[kind], function(row)
         local name = row:match("^[%w_]+")
         return ("  TLK_%s%s,"):format(kind == "pointwise" and "" or kind .. "_", name)
      end)
      out[#out + 1] = ("typedef enum tlk_%s {\n%s\n  TLK_N%s\n} tlk_%s;\n"):format(
         kind:gsub("^%l", string.upper), join(enum, "\n"), macro:sub(5), kind:gsub("^%l", string.upper))
   end
   local text = join(out, "\n")
   return ("%s\n/* Changes with these lists and with the headers that plugins share with us. */\n#define TLK_HASH 0x%016xull\n\n#endif\n"):format(
      text, M.hash(text .. shared))
end

return M
