-- Tests bfloat16 products, convolutions and attention with every instruction set that this processor
-- supports.

local session = require "spec.main.session"

describe("products, convolutions and attention of bfloat16", function()
   for _, isa in ipairs {"", "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16", "x86-64-v4+amx"} do
      it(("are as exact as their dtype with TLUA_ISA=%q"):format(isa), function()
         for _, threads in ipairs {1, 3} do
            local result = session.run(("-e 'require [[tlua]].set_num_threads(%d)' spec/ops/bfloat16_products.lua")
               :format(threads), {env = "TLUA_ISA=" .. isa})
            assert.equal("", result.err)
            local used, count, wrong = result.out:match("^(%S+)\t(%d+)\t(.*)\n$")
            if isa ~= "" and used ~= isa then return pending("this processor or build has no " .. isa) end
            assert.equal("185", count)
            assert.equal("", wrong)
         end
      end)
   end
end)
