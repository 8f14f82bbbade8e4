-- Tests the error messages for mistakes in Torch7 programs.

local torch = require "torch7"
local nn = require "tlua.torch7.nn"
local optim = require "tlua.torch7.optim"

local T = torch.Tensor

describe("A mistake in a program of Torch7", function()
   for name, case in pairs {
      ["with sizes that do not fit in a container"] = {"In 3 module of nn.Sequential:", function()
         nn.Sequential():add(nn.Linear(3, 4)):add(nn.Tanh()):add(nn.Linear(5, 2)):forward(torch.ones(2, 3))
      end},
      ["with a class 0"] = {"label 0 is out of range: expected 1 to 3", function()
         nn.ClassNLLCriterion():forward(torch.randn(2, 3), T {0, 1})
      end},
      ["with mixed types"] = {"expected tensors of one dtype, got float64 and float32", function()
         nn.Linear(3, 2):float():forward(torch.ones(2, 3))
      end},
      ["with the index 0"] = {"counted from 1", function() return torch.ones(2)[0] end},
      ["with an index that is too large"] = {"index 3 is out of range: expected 1 to 2", function()
         return torch.ones(2)[3]
      end},
      ["with tensors of different sizes in add"] = {"torch.add: expected tensors of as many elements, got 2 and 3",
         function() torch.ones(2):add(torch.ones(3)) end},
      ["with tensors of different sizes in addcmul"] = {"torch.addcmul: expected tensors of as many", function()
         torch.ones(2):addcmul(torch.ones(3), torch.ones(3))
      end},
      ["with tensors of different sizes in a comparison"] = {"torch.lt: expected tensors of as many", function()
         torch.ones(2):lt(torch.ones(3))
      end},
      ["with a string for a tensor"] = {"torch.add: expected (tensor, tensor) or (tensor, number)", function()
         torch.ones(2):add("x")
      end},
      ["with functions of real numbers of integers"] = {"torch.exp: expected a tensor of floating-point numbers, "
         .. "got a IntTensor", function() torch.exp(torch.IntTensor {1}) end},
      ["with integers in place"] = {"torch.sqrt: expected a tensor of floating-point numbers", function()
         torch.LongTensor {4}:sqrt()
      end},
      ["without a layer's size"] = {"nn.Linear: expected the sizes of the input and the output, got nil for the output",
         function() nn.Linear(3) end},
      ["without opfunc"] = {"optim.sgd: opfunc: expected a function, got nil", function()
         optim.sgd(nil, torch.ones(1))
      end},
      ["without a gradient"] = {"optim.adam: opfunc: expected a loss and its gradient, got number and nil", function()
         optim.adam(function() return 1 end, torch.ones(1))
      end},
      ["without a loss"] = {"optim.lbfgs: opfunc: expected a loss and its gradient, got torch.DoubleTensor and nil",
         function() optim.lbfgs(function(x) return x end, torch.ones(1)) end},
      ["with a file that does not exist"] = {"/nope.t7: No such file", function() torch.load "/nope.t7" end},
      ["with images that are too small"] = {"the kernel reaches over 3 elements", function()
         nn.SpatialConvolution(3, 4, 3, 3):forward(torch.ones(3, 2, 2))
      end},
      ["with parameters of two types"] = {"getParameters: expected parameters of one type", function()
         local first = nn.Linear(2, 2)
         local memory = torch.pointer(first.weight:storage())
         local good, problem = pcall(function()
            nn.Sequential():add(first):add(nn.Linear(2, 2):float()):getParameters()
         end)
         assert.is_false(good)
         assert.equal(memory, torch.pointer(first.weight:storage()))
         error(problem, 0)
      end},
      ["with a target of another size"] = {"nn.MSECriterion: target: expected 8 elements, as the input has, got 2",
         function() nn.MSECriterion():forward(torch.ones(2, 4), torch.ones(2, 1)) end},
      ["without a target"] = {"nn.BCECriterion: target: expected 2 elements, as the input has, got nil",
         function() nn.BCECriterion():forward(torch.ones(2)) end},
      ["without a gradOutput"] = {"backward: gradOutput: expected a tensor or a table, got nil", function()
         local model = nn.Sequential():add(nn.Linear(2, 2))
         model:forward(torch.ones(2))
         model:backward(torch.ones(2))
      end},
      ["with a gradOutput for a table"] = {"backward: gradOutput: expected a table of gradients, got a tensor",
         function()
            local model, x = nn.SplitTable(1), torch.ones(2, 2)
            model:forward(x)
            model:backward(x, x)
         end},
      ["with a number as the input"] = {"nn.CAddTable: input: expected a tensor or a table of tensors, got 5",
         function() nn.CAddTable():forward(5) end},
      ["with a number as the input of backward"] = {"nn.CAddTable: input: expected a tensor or a table",
         function() nn.CAddTable():backward(5, torch.ones(1)) end},
      ["with a number as the input of a criterion"] = {"nn.KLDCriterion: input: expected a tensor or a table",
         function() nn.KLDCriterion():forward(5, torch.ones(1)) end},
      ["with texts as sizes"] = {'nn.TemporalConvolution: inputFrameSize: expected an integer of at least 1, got "a"',
         function() nn.TemporalConvolution("a", "b", "c") end},
      ["with a fraction as a kernel's size"] = {"nn.TemporalMaxPooling: kW: expected an integer of at least 1, got 0.5",
         function() nn.TemporalMaxPooling(0.5) end},
      ["with a table for PReLU"] = {"nn.PReLU: nOutputPlane: expected an integer of at least 0, got a table",
         function() nn.PReLU {} end},
      ["with a tensor as a size"] = {"nn.PReLU: nOutputPlane: expected an integer of at least 0, got a float64 tensor "
         .. "of shape (2)", function() nn.PReLU(torch.ones(2)) end},
      ["with no module for a decorator"] = {"nn.NaN: module: expected a module, got nil", function() nn.NaN() end},
      ["with no module for Bottle"] = {"nn.Bottle: module: expected a module, got nil", function() nn.Bottle() end},
      ["with no weight for WeightNorm"] = {"nn.WeightNorm: module: expected a module with a weight",
         function() nn.WeightNorm(nn.Identity()) end},
      ["with no module for MapTable"] = {"nn.MapTable: expected a module, got none",
         function() nn.MapTable():forward {torch.ones(1)} end},
      ["with a tensor for MapTable"] = {"nn.MapTable: input: expected a table, got a float64 tensor",
         function() nn.MapTable(nn.Identity()):forward(torch.ones(1)) end},
      ["with no criterion"] = {"nn.ModuleCriterion: criterion: expected a criterion, got nil",
         function() nn.ModuleCriterion() end},
      ["with no table of connections"] = {"nn.SpatialConvolutionMap: connTable: expected a tensor (connections, 2)",
         function() nn.SpatialConvolutionMap() end},
      ["with no sizes for fractional pooling"] = {"nn.SpatialFractionalMaxPooling: argument 1: expected a number",
         function() nn.SpatialFractionalMaxPooling() end},
      ["with unpooling before pooling"] = {"nn.SpatialMaxUnpooling: poolingModule: expected a module with positions",
         function() nn.SpatialMaxUnpooling(nn.SpatialMaxPooling(2, 2)):forward(torch.ones(1, 2, 2)) end},
      ["with a number for Transpose"] = {"nn.Transpose: argument 1: expected a pair of dimensions, got 2",
         function() nn.Transpose(2) end},
      ["with an unknown type for Copy"] = {'nn.Copy: outtype: expected the name of a tensor type, got "torch.Foo"',
         function() nn.Copy("torch.FloatTensor", "torch.Foo") end},
      ["with a dimension that does not exist for Padding"] = {"nn.Padding: dim: expected a dimension from 1 to 1",
         function() nn.Padding(4, 1):forward(torch.ones(2)) end},
      ["with one class for ClassSimplexCriterion"] = {"ClassSimplexCriterion: nClasses: expected an integer",
         function() nn.ClassSimplexCriterion(1) end},
      ["with no tensor for an optimizer"] = {"optim.sgd: x: expected a tensor, got nil",
         function() optim.sgd(function() return 0, torch.ones(1) end) end},
      ["with no gradient for checkgrad"] = {"optim.checkgrad: opfunc: expected a loss and its gradient",
         function() optim.checkgrad(function() return 0 end, torch.ones(1)) end},
      ["with no points for polyinterp"] = {"optim.polyinterp: points: expected a tensor (n, 3)",
         function() optim.polyinterp() end},
      ["with one function for FistaLS"] = {"optim.FistaLS: expected three functions and a tensor",
         function() optim.FistaLS(print, 1) end},
      ["with no ends of a range"] = {"torch.range: expected numbers as the ends, got nil",
         function() torch.range() end},
      ["with a boolean for randperm"] = {"torch.randperm: expected a count, got boolean",
         function() torch.randperm(true) end},
      ["with nil within a list for cat"] = {"torch.cat: element 2: expected a tensor, got nil",
         function() torch.cat {torch.ones(1), nil, torch.ones(1)} end},
      ["with no function for apply"] = {"apply: expected a function, got nil", function() torch.ones(1):apply() end},
      ["with no function for map"] = {"map: expected a function, got nil",
         function() torch.ones(1):map(torch.ones(1)) end},
      ["with a table as a package"] = {"torch.packageLuaPath: expected the name of a package, got table",
         function() torch.packageLuaPath {} end},
      ["with a text as a size"] = {'nn.SpatialConvolution: kW: expected an integer of at least 1, got "3"',
         function() nn.SpatialConvolution(1, 1, "3", "3") end},
      ["with an unknown layer"] = {"attempt to call a nil value (field 'Foo')", function() nn.Foo() end},
   } do
      it(name .. " gets an error that names it", function()
         local good, problem = pcall(case[2])
         assert.is_false(good)
         assert.matches(case[1], problem, 1, true)
      end)
   end

   it("is not a number or a text that nn.Identity gets", function()
      assert.equal(3, nn.Sequential():add(nn.Identity()):forward(3))
      assert.equal("x", nn.Identity():forward "x")
   end)
end)
