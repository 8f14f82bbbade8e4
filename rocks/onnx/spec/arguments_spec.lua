-- Tests the errors of torch.onnx for wrong arguments, and that no file is written after an error.

local torch = require "tlua"
local shell = require "spec.support.shell"

local nn = torch.nn

local x <const> = torch.ones(1, 2)

local function model() return nn.Sequential(nn.Linear(2, 3), nn.ReLU()) end

describe("a wrong argument of torch.onnx.export", function()
   local dynamic = "onnx.export: dynamic_axes: x: "
   for _, case in ipairs {
      {"onnx.export: inputs: expected a tensor, or a list of the arguments, got nil", nil},
      {'onnx.export: inputs: expected a tensor, or a list of the arguments, got "x"', "x"},
      {'onnx.export: inputs: expected a list of the arguments, without other keys, got "x"', {x = x}},
      {"onnx.export: inputs[1]: expected a tensor, or a table of tensors, got nil", {nil, x}},
      {"onnx.export: inputs[2]: expected a tensor, or a table of tensors, got nil", {x, nil, x}},
      {"onnx.export: input: expected a tensor, or a table of tensors, got 3", {3}},
      {'onnx.export: input_names: expected a list of names, got "x"', x, {input_names = "x"}},
      {"onnx.export: input_names: expected names in UTF-8 that are not empty, got ", x, {input_names = {"\xff"}}},
      {"onnx.export: input_names: expected names in UTF-8 that are not empty, got 3", x, {input_names = {3}}},
      {"onnx.export: output_names: expected names in UTF-8 that are not empty, got 1", x, {output_names = {1}}},
      {'onnx.export: output_names: expected names that differ, got "a"', x, {output_names = {"a", "a"}}},
      {"onnx.export: dynamic_axes: unknown option y; there are input", x, {dynamic_axes = {y = {1}}}},
      {dynamic .. "expected a table of dimensions, got false", x, {input_names = {"x"}, dynamic_axes = {x = false}}},
      {dynamic .. "expected dimensions of a tensor with 2, got 3", x, {input_names = {"x"}, dynamic_axes = {x = {3}}}},
      {dynamic .. 'expected names of sizes in UTF-8 that are not empty, got ""', x,
         {input_names = {"x"}, dynamic_axes = {x = {[1] = ""}}}},
      {dynamic .. "expected names of sizes in UTF-8 that are not empty, got ", x,
         {input_names = {"x"}, dynamic_axes = {x = {[1] = {name = "\xff"}}}}},
      {dynamic .. "name: expected a string, got 1", x,
         {input_names = {"x"}, dynamic_axes = {x = {[1] = {name = 1}}}}},
      {'onnx.export: external_data: expected a boolean, got "yes"', x, {external_data = "yes"}},
   } do
      it("raises " .. case[1]:gsub("\xff", "?"), function()
         shell.with_folder(function(folder)
            local path = folder .. "/m.onnx"
            assert.raises(case[1], function() torch.onnx.export(model(), case[2], path, case[3]) end)
            assert.is_nil(io.open(path, "rb"))
         end)
      end)
   end

   it("is named for a path", function()
      assert.raises('onnx.export: path: expected a path, got ""', function() torch.onnx.export(model(), x, "") end)
   end)
end)

describe("a wrong argument of torch.onnx.load", function()
   it("is named", function()
      assert.raises('onnx.load: path: expected a path, got ""', function() torch.onnx.load "" end)
      local fine, why = pcall(function() torch.onnx.load "no-such.onnx" end)
      assert.is_false(fine)
      assert.matches("onnx.load: no%-such.onnx: No such file", why)
      assert.is_nil(why:find("no-such.onnx: no-such.onnx", 1, true))
      shell.with_folder(function(folder)
         local path = folder .. "/m.onnx"
         torch.onnx.export(model(), x, path)
         assert.raises("onnx.load: max_loop_steps: expected an integer of at least 1, got false", function()
            torch.onnx.load(path, {max_loop_steps = false})
         end)
      end)
   end)
end)

describe("torch.onnx.export of a reshape to a size of 0", function()
   it("keeps the size 0, which ONNX otherwise reads as the input's size", function()
      shell.with_folder(function(folder)
         local path, empty = folder .. "/m.onnx", torch.ones(2, 0)
         for _, shape in ipairs {{0, 2}, {3, 2, 0}} do
            torch.onnx.export(function(y) return y:reshape(shape) end, {empty}, path)
            assert.same(shape, torch.onnx.load(path)(empty).shape)
         end
      end)
   end)
end)
