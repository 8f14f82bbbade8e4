-- Tests `help`. The command `tlua` contains the comments of the library's sources, so these specs run inside a program
-- that the command executes.

local torch = require "tlua"
local help = require "tlua.repl.help"
local lazy = require "tlua.lazy"
local manual = require "tlua.repl.manual"

describe("help", function()
   it("describes an operator by any of its names", function()
      local text = manual.help("torch.add")
      assert.matches("^torch%.add%(.*\nx:add%(", text)
      for _, name in ipairs {"add", "Tensor.add", "x:add", "x:add_", "torch.add_"} do
         assert.equal(text, manual.help(name), name)
      end
      assert.matches("^torch%.abs", manual.help("torch.absolute"))
   end)

   it("describes an operator by its function", function()
      assert.matches("^torch%.matmul", manual.help(torch.matmul))
      assert.matches("^torch%.matmul", manual.help(torch.ones(1).matmul))
      for _, module in ipairs {"linalg", "special", "nn.functional"} do
         local members = manual.resolve(module)
         for name in pairs(lazy.fields(members)) do
            assert.is_string(manual.help(members[name]), module .. "." .. name)
         end
         for name, fn in pairs(members) do
            if type(fn) == "function" then assert.is_string(manual.help(fn), module .. "." .. name) end
         end
      end
   end)

   it("describes a class given by name, as a value or by an object", function()
      local text = manual.help("nn.Linear")
      assert.matches("^nn%.Linear%(in_features, out_features, bias = true", text)
      assert.matches("weight +Tensor +%(out_features, in_features%)", text)
      assert.matches("nn%.functional%.linear", text)
      assert.equal(text, manual.help("torch.nn.Linear"))
      assert.equal(text, manual.help(torch.nn.Linear))
      assert.equal(text, manual.help(torch.nn.Linear(1, 1)))
   end)

   it("shows the options of functions in C", function()
      assert.matches("^x:backward%({gradient, retain_graph, create_graph, inputs}%)\n", manual.help("x:backward"))
   end)

   it("describes a layer's function along with the layer", function()
      local text = manual.help("nn.NLLLoss2d")
      assert.matches("\nComputes `nn%.functional%.nll_loss` of its input", text)
      assert.matches("\nComputes %-weight%[target%] %* input%[target%] for log%-probabilities", text)
      -- the example shows the function's public path
      assert.is_nil(text:find("F.nll_loss(", 1, true))
      assert.matches("^nn%.Bilinear.*: y_k = x1%^T W_k x2 %+ b_k%.\n", manual.help("nn.Bilinear"))
   end)

   it("describes classes that are rows of a table", function()
      assert.matches("^nn%.LeakyReLU%(negative_slope = 0%.01", manual.help("nn.LeakyReLU"))
      assert.matches("help \"nn%.functional%.mse_loss\"", manual.help("nn.MSELoss"))
      assert.matches("^optim%.Adam%(params", manual.help("optim.Adam"))
   end)

   it("describes functions in Lua by their comments", function()
      assert.matches("^torch%.class%(name, parent%?%)\n\nMakes a class", manual.help("torch.class"))
      assert.equal(manual.help("torch.save"), manual.help(torch.save))
   end)

   it("shows an optimizer's options with their defaults", function()
      local text = manual.help(torch.optim.Adam)
      assert.matches("optim.Adam(params, {lr = 0.001, amsgrad = false, betas = {0.9, 0.999},", text, 1, true)
      assert.matches("weight_decay = 0, differentiable?,\n   foreach?, fused?})", text, 1, true)
      for name in ("add_param_group load_state_dict state_dict step zero_grad"):gmatch "%S+" do
         assert.matches("\nMethods: .*%f[%w_]" .. name .. "%f[^%w_]", text)
      end
      local class_of = require "tlua.class"
      for name in pairs(lazy.fields(torch.optim)) do
         local class = torch.optim[name]
         local is = type(class) == "table" and class_of.issubclass(class, torch.optim.Optimizer)
         if is and class ~= torch.optim.Optimizer then
            assert.matches("^optim%.%w+%(params, {lr = ", manual.help(class))
         end
      end
   end)

   it("keeps the lines that continue a tag with the tag", function()
      local text = manual.help(torch.save)
      assert.matches("\n  compress         boolean  of .npz, as numpy.savez_compressed does\n"
         .. "  quality?         integer  of a .jpg, from 1 to 100, 75 by default", text, 1, true)
      assert.is_nil(text:find("\nnumpy.savez_compressed", 1, true))
      text = manual.help(torch.nn.MultiheadAttention)
      assert.matches("\n   batch_first = false, device?, dtype?)\n\nAttention with several heads, each", text, 1, true)
      assert.matches("\n  options?         table  `add_bias_kv` appends a learnt key and value to those\n"
         .. "                   of the input, `add_zero_attn` appends zeros; ", text, 1, true)
      assert.matches("\nobject(query, key, value, key_padding_mask?,", text, 1, true)
      text = manual.help(torch.utils.plot.image)
      assert.matches("torch.utils.plot.image(tensor, title?,", text, 1, true)
      assert.is_nil(text:find("\nsave: string}", 1, true))
      for line in text:gmatch "[^\n]+" do assert.truthy(#line <= 80, line) end
   end)

   it("lists the contents of a module", function()
      local text = manual.help "torch.io"
      assert.equal(text, manual.help(torch.io))
      assert.equal(text, manual.help "io")
      assert.matches("\n  bytes            Returns a string's bytes as a tensor.\n", text, 1, true)
      assert.matches("\n  as_dict          Makes torch.save write a table as a dictionary even", text, 1, true)
      assert.matches("optim.*It has ASGD, Adadelta,", manual.help "optim")
      assert.matches("nn%.functional.*It has .*cross_entropy,", manual.help "nn.functional")
      assert.is_nil(help.text("torch.io"):find("Did you mean", 1, true))
   end)

   it("describes modules by the comments that begin their files", function()
      assert.is_string(manual.help("nn.functional"))
      assert.equal(manual.help("nn.functional"), manual.help(torch.nn.functional))
   end)

   it("has a text on every public class of nn and optim", function()
      for _, section in ipairs {"nn", "optim"} do
         for name in pairs(lazy.fields(torch[section])) do
            local text = manual.help(section .. "." .. name)
            assert.is_string(text, section .. "." .. name)
            assert.is_true(#text > 20, section .. "." .. name)
         end
      end
   end)

   it("returns nothing for unknown names", function()
      for _, name in ipairs {"", ".", "a.b.c", "torch", "torch.add.x", "nn.Linear.y"} do
         assert.is_nil(manual.help(name), name)
      end
      assert.is_nil(manual.help({}))
      assert.is_nil(manual.help(1))
      assert.is_nil(manual.help(print))
   end)
end)

describe("help, of names that the manual lacks,", function()
   it("suggests similar names", function()
      assert.matches('nothing on "torch.matmull"%.\nDid you mean .*torch%.matmul', help.text("torch.matmull"))
      assert.matches("Did you mean .*nn%.Linear", help.text("liner"))
      assert.equal('The manual has nothing on "zzzzzzzz".', help.text("zzzzzzzz"))
   end)

   it("prints the file and line of a function", function()
      local here = debug.getinfo(1, "Sl")
      assert.equal(("A function with 2 parameters, from %s line %d; it is not in the manual."):
         format(here.short_src, here.currentline + 3),
         help.text(function(_, _) end))
      assert.matches("A function in C", help.text(print))
   end)

   it("describes the value itself", function()
      assert.matches("a float32 tensor of shape %(2, 3%)", help.text(torch.ones(2, 3)))
      assert.matches("a table", help.text({}))
      assert.matches("nil", help.text(nil))
   end)

   it("says how to begin when asked for nothing", function() assert.matches("Tab completes", help.text()) end)

   it("describes every function of the binding", function()
      local missing, count = {}, 0
      for prefix, members in pairs {["torch."] = torch, ["Tensor."] = torch.Tensor, ["autograd."] = torch.autograd,
                                    ["cuda."] = torch.cuda, ["sim."] = torch.sim, ["io."] = torch.io} do
         for name, value in next, members do
            -- skips the class Function, which `record` makes, and internal names, which begin with _
            if type(value) == "function" and not name:find("^_") and name ~= "record" then
               count = count + 1
               if not manual.help(value) then missing[#missing + 1] = prefix .. name end
            end
         end
      end
      table.sort(missing)
      assert.same({}, missing)
      assert.is_true(count > 500)
   end)
end)
