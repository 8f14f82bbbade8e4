-- Tests layers of Torch7's nn that few programs use, nn.hessian, trepl's print, xlua's parser and
-- profiler, sys and paths.

local torch = require "torch7"
local nn = require "tlua.torch7.nn"
local shell = require "spec.support.shell"
local trepl = require "tlua.torch7.trepl"
local xlua = require "tlua.torch7.xlua"
local sys = require "tlua.torch7.sys"
local paths = require "tlua.torch7.paths"

local function near(a, b, tolerance)
   assert.is_true(math.abs(a - b) <= (tolerance or 1e-12), ("%s and %s"):format(a, b))
end

describe("nn.Convert", function()
   it("flattens and reorders the dimensions of batches and of examples", function()
      local x = torch.range(1, 24):resize(2, 3, 2, 2)
      assert.same({2, 12}, nn.Convert("bchw", "bf"):forward(x):size():totable())
      assert.same({12}, nn.Convert("chw", "f"):forward(x[1]):size():totable())
      local y = torch.Tensor(1, 2, 3, 2)
      y:select(2, 1):fill(1)
      y:select(2, 2):fill(2)
      local module = nn.Convert("chw", "hwc")
      local z = module:forward(y)
      assert.same({1, 3, 2, 2}, z:size():totable())
      assert.same({1.0, 2.0}, z[1][3][2]:totable())
      assert.same({1, 2, 3, 2}, module:backward(y, z):size():totable())
      assert.same(y:totable(), module.gradInput:totable())
      assert.raises("the dimensions bchw, got 2", function() module:forward(torch.rand(2, 2)) end)
      assert.raises("has no dimension t", function() nn.Convert("bhw", "bht"):forward(torch.rand(1, 2, 2)) end)
      assert.raises("expected both shapes, or none", function() nn.Convert "bhw" end)
   end)

   it("converts the type of the input", function()
      local module = nn.Convert():float()
      local x = torch.DoubleTensor {1, 2}
      assert.equal("torch.FloatTensor", module:forward(x):type())
      assert.equal("torch.DoubleTensor", module:backward(x, torch.FloatTensor {1, 1}):type())
   end)
end)

it("nn.FeatureLPPooling takes norms of neighbouring features", function()
   local module = nn.FeatureLPPooling(2, 1, 2)
   local y = module:forward(torch.Tensor {3, 4, 0})
   near(5, y[1])
   near(4, y[2])
   local batch = nn.FeatureLPPooling(2, 2, 1, true)
   assert.same({{3.0, 7.0}}, batch:forward(torch.Tensor {{1, 2, 3, 4}}):totable())
   assert.is_true(nn.Jacobian.testJacobian(nn.FeatureLPPooling(2, 2, 2), torch.Tensor(4), 0.5, 2) < 1e-5)
   assert.raises("width: expected a number from 1", function() nn.FeatureLPPooling(0, 1, 2) end)
end)

it("nn.Kmeans moves centres to the means of their examples", function()
   local module = nn.Kmeans(2, 1)
   module.weight:copy(torch.Tensor {{0}, {10}})
   local x = torch.Tensor {{1}, {3}, {8}}
   assert.same({1.0, 1.0, 2.0}, module:forward(x):totable())
   near(1 + 9 + 4, module.loss)
   module:zeroGradParameters()
   module:backward(x)
   module:updateParameters(1)
   assert.same({{2.0}, {8.0}}, module.weight:totable())
   assert.same({2.0, 1.0}, module.clusterSampleCount:totable())
   module:forward(x)
   near(1 + 1, module.loss)
   module:initRandom(x)
   module:initKmeansPlus(x)
   assert.is_true(module.weight[1][1] ~= module.weight[2][1])
   assert.raises("input: expected (n, 1), got (2, 2)", function() module:forward(torch.rand(2, 2)) end)
end)

it("nn.SparseJacobian varies the values of a sparse input", function()
   local x = torch.Tensor {{1, 0.1}, {3, 0.3}}
   local module = nn.SparseLinear(4, 2)
   assert.is_true(nn.SparseJacobian.testJacobian(module, x) < 1e-6)
   assert.is_true(nn.SparseJacobian.testJacobianParameters(module, x, module.weight, module.gradWeight) < 1e-6)
   assert.same({1.0, 3.0}, x:select(2, 1):totable())
end)

it("nn.SparseLinear takes batches as tables and as tensors", function()
   local module = nn.SparseLinear(4, 2)
   local x = torch.Tensor {{{1, 0.1}, {3, 0.3}}, {{2, 5}, {4, -1}}}
   local dense = torch.Tensor {{0.1, 0, 0.3, 0}, {0, 5, 0, -1}}
   local expected = torch.mm(dense, module.weight:t()):add(module.bias:view(1, 2):expand(2, 2))
   assert.is_true((module:forward(x) - expected):abs():max() < 1e-12)
   assert.is_true((module:forward {x[1], x[2]} - expected):abs():max() < 1e-12)
   local g = torch.Tensor {{1, 2}, {3, 4}}
   module:forward(x)
   module:zeroGradParameters()
   module:backward(x, g)
   assert.is_true((torch.mm(g:t(), dense) - module.gradWeight):abs():max() < 1e-12)
   assert.same({4.0, 6.0}, module.gradBias:totable())
end)

it("nn.Jacobian compares the ways to update parameters", function()
   local names = {}
   for name, problem in pairs(nn.Jacobian.testAllUpdate(nn.Linear(3, 2), torch.rand(4, 3), "weight", "gradWeight")) do
      names[#names + 1] = name
      assert.is_true(problem < 1e-10)
   end
   assert.equal(4, #names)
   local wrong = nn.Linear(3, 2)
   function wrong:accUpdateGradParameters() end
   local errors = nn.Jacobian.testAllUpdate(wrong, torch.rand(4, 3), "weight", "gradWeight")
   assert.is_true(errors.accGradParameters < 1e-10 and errors.accUpdateGradParameters > 1e-6)
end)

describe("nn.hessian", function()
   nn.hessian.enable()

   it("gives the exact diagonal for a linear layer and squared errors", function()
      local module, criterion = nn.Linear(2, 1), nn.MSECriterion()
      local x, y = torch.Tensor {{1, 2}, {3, -1}}, torch.Tensor {{0}, {1}}
      criterion:forward(module:forward(x), y)
      local h = criterion:updateDiagHessianInput(module.output, y)
      assert.same({{1.0}, {1.0}}, h:totable()) -- 2 / n
      module:initDiagHessianParameters()
      module:accDiagHessianParameters(x, h)
      -- The loss is the mean of (w x + b - y)^2 over n elements. So the second derivatives are the sums of 2 / n x^2.
      assert.same({{10.0, 5.0}}, module.diagHessianWeight:totable())
      assert.same({2.0}, module.diagHessianBias:totable())
      local w = module.weight
      local input = module:updateDiagHessianInput(x, h)
      near(w[1][1] ^ 2, input[1][1])
      near(w[1][2] ^ 2, input[2][2])
      local _, _, diagonal = module:getParameters()
      assert.same({10.0, 5.0, 2.0}, diagonal:totable())
      module:zeroDiagHessianParameters()
      assert.equal(0.0, diagonal:sum())
   end)

   it("passes squared slopes back through a chain", function()
      local model = nn.Sequential():add(nn.Linear(1, 1)):add(nn.Tanh()):add(nn.Linear(1, 1))
      local x = torch.Tensor {0.7}
      model:forward(x)
      model:initDiagHessianParameters()
      model:updateDiagHessianInput(x, torch.Tensor {3})
      model:accDiagHessianParameters(x, torch.Tensor {3})
      local t = model:get(2).output[1]
      local h = 3 * model:get(3).weight[1][1] ^ 2 * (1 - t * t) ^ 2
      near(h * 0.49, model:get(1).diagHessianWeight[1][1])
      near(h * model:get(1).weight[1][1] ^ 2, model.diagHessianInput[1])
   end)

   it("adds squares for layers without a rule of their own, and refuses parameters", function()
      local softmax, x = nn.SoftMax(), torch.Tensor {0.1, 0.5, -0.2}
      local y = softmax:forward(x)
      local h = softmax:updateDiagHessianInput(x, torch.Tensor {1, 2, 3})
      local expected = 0
      for i = 1, 3 do expected = expected + i * (y[i] * ((i == 1 and 1 or 0) - y[1])) ^ 2 end
      near(expected, h[1])
      local prelu = nn.PReLU()
      assert.raises("no rule for the parameters of nn.PReLU", function()
         prelu:accDiagHessianParameters(x, x)
      end)
   end)
end)

describe("trepl's print", function()
   it("shows the fields of tables", function()
      assert.equal('{\n  1 : 1\n  2 : \n    {\n      1 : "two"\n    }\n  x : DoubleTensor - size: 2x3\n}',
         trepl.tostring {1, {"two"}, x = torch.zeros(2, 3)})
      assert.equal("text", trepl.tostring "text")
      local loop = {}
      loop.self = loop
      assert.matches("{%.%.%.}", trepl.tostring(loop))
      assert.equal("nn.Tanh", trepl.tostring(nn.Tanh()))
      assert.equal("{\n  1 : 2\n}\t3\n", shell.ok(shell.tlua .. " --torch7 -e 'print({2}, 3)'"))
   end)
end)

describe("xlua's", function()
   local function parser()
      local made = xlua.OptionParser "%prog [options] file"
      made:option {"-s", "--size", action = "store", dest = "size", default = 3, help = "the size"}
      made:option {"-v", "--verbose", action = "store_true", dest = "verbose"}
      made:option {"-f", "--file", action = "append", dest = "files"}
      return made
   end

   it("OptionParser reads a command line", function()
      local options, rest = parser():parse {"-s", "7", "a.lua", "--verbose", "--file=x", "-f", "y", "--", "-z"}
      assert.equal(7, options.size)
      assert.is_true(options.verbose)
      assert.same({"x", "y"}, options.files)
      assert.same({"a.lua", "-z"}, rest)
      options = parser():parse {}
      assert.equal(3, options.size)
      assert.is_nil(options.verbose)
      assert.raises("action: expected 'store'", function() parser():option {"-x", action = "keep"} end)
   end)

   it("OptionParser ends the program for what it does not know", function()
      local function run(arguments)
         local script = [[local op = xlua.OptionParser "%%prog"
            op:option {"-n", default = 1, req = true} op:parse {%s}]]
         return (shell.run(("%s --torch7 -e %s"):format(shell.tlua, shell.quote(script:format(arguments)))))
      end
      assert.matches("unknown option %-x", run "'-x'")
      assert.matches("%-n: expected a number, got 'many'", run "'-n', 'many'")
      assert.matches("%-n needs a value", run "'-n'")
      assert.matches("%-n is required", run "")
   end)

   it("Profiler adds the times of sections", function()
      local profiler = xlua.Profiler()
      profiler:start "a"
      sys.usleep(2000)
      local first = profiler:lap "a"
      profiler:start "a"
      local second = profiler:lap "a"
      assert.is_true(first >= 0.002)
      near(first + second, (profiler:time "a"))
      assert.equal(profiler:time "a", profiler:real "a")
      assert.equal(select(2, profiler:time "a"), profiler:cpu "a")
      assert.raises("the section b was not started", function() profiler:lap "b" end)
   end)

   it("clearall removes the program's globals, which who lists", function()
      local out = shell.ok(shell.tlua .. " --torch7 -e 'a = 5 xlua.who() xlua.clearall() print(rawget(_G, \"a\"))'")
      assert.matches("Global Vars:\n{\n  a : 5\n}\nnil\n$", out)
   end)

   it("unpack_class sets fields", function()
      local object = {}
      xlua.unpack_class(object, {{size = 2}}, "f", "help", {arg = "size", type = "number"}, {arg = "n", default = 4})
      assert.same({size = 2, n = 4}, object)
   end)
end)

describe("sys and paths", function()
   it("find files, folders and programs", function()
      assert.equal("more7_spec.lua", select(2, sys.fpath()))
      assert.equal(paths.cwd(), sys.pwd())
      shell.with_folder(function(folder)
         assert.equal("", sys.ls(folder))
         paths.mkdir(folder .. "/it's")
         assert.equal("it's", sys.ls(folder))
         assert.equal("", sys.ls(folder .. "/it's"))
      end)
      assert.matches("/sh$", paths.findprogram("no-such-program", "sh"))
      assert.is_nil(paths.findprogram "no-such-program")
      assert.raises("only Windows has a registry", function() paths.getregistryvalue("a", "b", "c") end)
      assert.equal("\27[0;31m", sys.COLORS.red)
      assert.equal("\27[1;31m", sys.COLORS.Red)
   end)
end)

it("Torch7's utilities compare objects and classes, and cutorch has its names", function()
   local a = torch.ones(2)
   assert.is_true(torch.isequal(a, a))
   assert.is_false(torch.isequal(a, torch.ones(2)))
   assert.is_false(torch.isequal(1, 1))
   assert.equal(torch.typename2id "torch.DoubleTensor", torch.id(a))
   assert.is_nil(torch.id(3))
   assert.is_nil(torch.factory "no.Class")
   assert.same({"a", "b", "c"}, sys.split("a, b, c", ", "))
   assert.same({"a"}, sys.split("a", "%."))
   assert.is_true(sys.isNaN(0 / 0))
   assert.equal("true\ttrue\n", shell.ok(("%s --torch7 -e %s"):format(shell.tlua,
      shell.quote 'require "cunn" print(cutorch ~= nil, cutorch.getNumStreams ~= nil)')))
end)

it("Torch7's gnuplot draws y over x, and several curves by name", function()
   if not require "tlua".has "utils.plot" then return pending "the package plot is not installed" end
   local gnuplot = require "tlua.torch7.gnuplot"
   local path = os.tmpname() .. ".svg"
   finally(function() os.remove(path) end)
   gnuplot.svgfigure(path)
   gnuplot.plot({"f(x)", torch.Tensor {10, 20, 40}, torch.Tensor {1, 2, 3}, "+-"}, {"g", torch.Tensor {2, 1}, "-"})
   local text = shell.read(path)
   assert.matches("f(x)", text, 1, true)
   assert.matches(">40<", text, 1, true)
   gnuplot.plot("name", torch.Tensor {{100, 1}, {200, 2}}, "|")
   assert.matches(">200<", (shell.read(path)), 1, true)
   gnuplot.closeall()
   assert.raises("gnuplot.splot: plots in three dimensions", function() gnuplot.splot(torch.ones(2, 2)) end)
   assert.raises("expected a tensor for the curve name", function() gnuplot.plot("name", "-") end)
end)

it("programs of Torch7 set environments and make modules as in Lua 5.1", function()
   local path = os.tmpname()
   local file = assert(io.open(path .. ".lua", "w"))
   finally(function()
      os.remove(path)
      os.remove(path .. ".lua")
   end)
   file:write [[
      module("spec7.inner", package.seeall)
      local k = 2
      function double(x) return k * x, type(x) end
      limit = 5]]
   file:close()
   assert.equal("6\tnumber\t5\tspec7.inner\tspec7.\nnil\n7\t8\ttrue\nfalse\n", (shell.run(
      ("%s --torch7 -e %s"):format(shell.tlua, shell.quote(([[
         dofile "%s.lua"
         local inner = require "spec7.inner"
         local twice, kind = spec7.inner.double(3)
         print(twice, kind, inner.limit, inner._NAME, inner._PACKAGE)
         print(rawget(_G, "limit"))
         local function f() return x end
         setfenv(f, {x = 7})
         local function g() setfenv(1, {y = 8}) return y end
         print(f(), g(), getfenv(f).x == 7 and getfenv() == _G)
         print((pcall(setfenv, f, 3)))]]):format(path))))))
end)

it("Torch7's Cuda tensors take positions and masks from the CPU", function()
   if not require "tlua".sim.is_available() then return pending "there is no simulated device" end
   local x, at = torch.CudaTensor {1, 2, 3}, torch.LongTensor {3, 1}
   assert.same({3, 1}, x:index(1, at):totable())
   assert.same({3, 1}, x:gather(1, at):totable())
   assert.same({1, 3}, x:maskedSelect(torch.ByteTensor {1, 0, 1}):totable())
   assert.same({7, 2, 7}, x:clone():indexFill(1, at, 7):totable())
   assert.same({5, 2, 4}, x:clone():indexCopy(1, at, torch.CudaTensor {4, 5}):totable())
   assert.same({9, 2, 9}, x:clone():scatter(1, at, 9):totable())
   assert.same({0, 2, 0}, x:clone():maskedFill(torch.ByteTensor {1, 0, 1}, 0):totable())
end)
