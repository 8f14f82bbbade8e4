-- Tests streams that other libraries have created, and the functions that describe a build for GPUs.

local torch = require "tlua"
local shell = require "spec.support.shell"
local emulated <const> = require("spec.support.device").is_emulated() and it or pending
local cuda = torch.cuda
local on <const> = {device = "cuda"}

describe("cuda.ExternalStream", function()
   it("is the stream of a handle", function()
      local s = cuda.Stream()
      assert.is_true(math.type(s.cuda_stream) == "integer")
      local same = cuda.ExternalStream(s.cuda_stream)
      assert.is_true(same == s)
      assert.equal(s.stream_id, same.stream_id)
      assert.is_true(cuda.ExternalStream {stream_ptr = s.cuda_stream, device = 0} == s)
      assert.is_true(cuda.ExternalStream(cuda.default_stream().cuda_stream) == cuda.default_stream())
   end)

   it("can be the driver's default stream, which works like any other", function()
      local driver = cuda.ExternalStream(0)
      assert.is_true(driver == cuda.ExternalStream(0))
      assert.is_false(driver == cuda.default_stream())
      local x = torch.arange(1, 6, on)
      driver:wait_stream(cuda.current_stream())
      local y = cuda.stream(driver, function() return x * x + 1 end)
      y:record_stream(cuda.current_stream())
      cuda.current_stream():wait_stream(driver)
      assert.same({2, 5, 10, 17, 26}, (y * 1):tolist())
      driver:synchronize()
      assert.is_true(driver:query())
   end)

   it("refuses values that are not handles", function()
      assert.raises("cuda.ExternalStream: stream_ptr: expected a stream's handle, as an integer or " ..
         "light userdata, got string 'x'", function() cuda.ExternalStream "x" end)
      assert.raises("cuda.ExternalStream: stream_ptr: expected a stream's handle", "got nil",
         function() cuda.ExternalStream() end)
      assert.raises("cuda.ExternalStream: device cuda:9: expected cuda:0 to cuda:" .. cuda.device_count() - 1,
         function() cuda.ExternalStream(0, 9) end)
   end)
end)

describe("cuda.get_arch_list", function()
   emulated("lists architectures of kernels that do not depend on the architecture",
      function() assert.equal("", (shell.run "grep -rl __CUDA_ARCH__ kernels src")) end)

   it("lists the architectures for which kernels are compiled", function()
      local list = cuda.get_arch_list()
      assert.is_true(#list >= 2)
      local ptx = table.remove(list)
      for _, name in ipairs(list) do assert.matches("^sm_%d+%a?$", name) end
      assert.equal(ptx, (list[1]:gsub("sm", "compute")))
   end)
end)
