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
      ["with an unknown layer"] = {"attempt to call a nil value (field 'Foo')", function() nn.Foo() end},
   } do
      it(name .. " gets an error that names it", function()
         local good, problem = pcall(case[2])
         assert.is_false(good)
         assert.matches(case[1], problem, 1, true)
      end)
   end
end)
