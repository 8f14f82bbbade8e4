-- Tests the arguments of torch.compile, torch.compiler and torch.jit. compile_spec.lua tests the compiled programs.
local torch = require "tlua"

describe("torch.compile", function()
   it("takes PyTorch's options", function()
      local model = torch.nn.Linear(2, 3)
      local options = {mode = "max-autotune", fullgraph = true, dynamic = false}
      assert.equal(model, torch.compile(model, options)._orig_mod)
      assert.equal(model, torch.compile(model, {disable = true}))
      assert.equal(print, torch.compile(print, {backend = "eager"}))
      assert.equal("number", torch.compile(type, {backend = "inductor"})(1))
      assert.equal("number", torch.compile {mode = "max-autotune-no-cudagraphs"}(type)(1))
      assert.equal(torch.compile, torch.compiler.compile)
   end)

   it("refuses arguments that PyTorch refuses", function()
      assert.raises("compile", "model: expected a module or a function, got nil", function() torch.compile(nil) end)
      assert.raises("compile", "CUDA graphs", function() torch.compile(print, {mode = "reduce-overhead"}) end)
      assert.raises("compile", "mode: expected", function() torch.compile(print, {mode = "fast"}) end)
      assert.raises("compile", "unknown option fulgraph", function() torch.compile(print, {fulgraph = true}) end)
   end)
end)

it("torch.compiler takes marks", function()
   local compiler = torch.compiler
   assert.is_false(compiler.is_compiling())
   assert.is_false(compiler.is_exporting())
   assert.equal(print, compiler.disable(print))
   assert.equal(print, compiler.disable {recursive = false}(print))
   assert.equal(print, compiler.allow_in_graph(print))
   assert.same({"eager", "tlua"}, compiler.list_backends())
   compiler.reset()
   assert.raises("compiler.explain", "fn: expected a module or a function", function() compiler.explain(1) end)
   compiler.cudagraph_mark_step_begin()
end)

it("torch.jit accepts marks, and raises errors that name a replacement for compiling", function()
   assert.is_false(torch.jit.is_scripting())
   assert.equal(print, torch.jit.ignore(print))
   assert.raises("jit.script", "use the module as it is", function() torch.jit.script(print) end)
   assert.raises("jit.trace_module", "torch.export(m, inputs)", function() torch.jit.trace_module() end)
   local traced
   local program = torch.jit.trace(function(x)
      traced = torch.jit.is_tracing() and torch.compiler.is_exporting()
      return x * 2
   end, torch.ones(3))
   assert.is_true(traced)
   assert.is_false(torch.jit.is_tracing())
   local path <const> = os.tmpname()
   torch.jit.save(program, path)
   assert.same({2, 2, 2}, torch.jit.load(path)(torch.ones(3)):tolist())
   os.remove(path)
end)
