"""The three journeys on the map, step by step: a prompt, one token, a draft with its check. Read them through `atlas`.

A step is (block, further edges that are busy, what happens). The edge from the block of the step before lights by itself.
"""

from __future__ import annotations

from .atlas_words import Words

MEMORY = (("3C", "6A"), ("6A", "3C"))
ATTEND = (("6A", "4A"), ("4A", "6A"))

PATHS = {
    "prefill": (
        Words("Prefill", "Prefill", "预填充"),
        (
            ("1A", (), Words("The whole prompt enters at once: T tokens, {S} equal streams each.",
                             "Cả prompt vào cùng lúc: T token, mỗi token {S} luồng giống nhau.", "整段提示词一次进入：T 个词元，每个 {S} 条相同的流。")),
            ("1B", (), Words("Before layers {engram_layers}: what tables remember of the last tokens is added.",
                             "Trước lớp {engram_layers}: cộng thêm điều các bảng nhớ về những token gần nhất.",
                             "在第 {engram_layers} 层之前：加入表中对最近词元的记忆。")),
            ("2A", (), Words("Streams collapse into one input for the layer.", "Các luồng gộp thành một đầu vào cho lớp.",
                             "各流合并成该层的一个输入。")),
            ("3A", (), Words("All tokens run through layers 0 … {last_encoder}; layers {encoder} … {last} see the last {window} only.",
                             "Mọi token qua lớp 0 … {last_encoder}; lớp {encoder} … {last} chỉ thấy {window} token cuối.",
                             "所有词元经过第 0 … {last_encoder} 层；第 {encoder} … {last} 层只看最后 {window} 个。")),
            ("3B", (), Words("Layers {pair_sources} pool pairs of tokens; layer {single_source} makes one latent per token, for all of them.",
                             "Lớp {pair_sources} gộp từng cặp token; lớp {single_source} tạo một latent cho mỗi token, cho toàn bộ prompt.",
                             "第 {pair_sources} 层合并词元对；第 {single_source} 层为每个词元生成一个潜在向量。")),
            ("6A", (), Words("Entries are stored in 4 bits: {entry} B each.", "Entry được lưu ở 4 bit: mỗi entry {entry} B.",
                             "条目以 4 位存储：每条 {entry} B。")),
            ("3C", MEMORY, Words("Index keys are stored too; each query picks its best {topk} entries.",
                                 "Khoá chỉ mục cũng được lưu; mỗi truy vấn chọn {topk} entry tốt nhất.",
                                 "索引键也存下；每个查询选出最好的 {topk} 条。")),
            ("4A", ATTEND, Words("Each query attends to at most {keys} keys; its window row goes into the ring.",
                                 "Mỗi truy vấn chú ý tối đa {keys} khoá; hàng cửa sổ của nó vào vòng.",
                                 "每个查询最多关注 {keys} 个键；其窗口行写入环。")),
            ("5A", (("5A", "2A"),), Words("{chosen} experts and the shared one answer. Then back to 2A for the next layer.",
                                          "{chosen} chuyên gia và chuyên gia chung trả lời. Rồi quay lại 2A cho lớp kế tiếp.",
                                          "{chosen} 个专家和共享专家给出结果，然后回到 2A 进入下一层。")),
            ("6B", (), Words("After layer {last} the last position's scores give the first new token.",
                             "Sau lớp {last}, điểm ở vị trí cuối cho token mới đầu tiên.", "第 {last} 层之后，末位的分数给出第一个新词元。")),
        ),
    ),
    "decode": (
        Words("Decode", "Decode", "解码"),
        (
            ("1A", (), Words("One token enters: T = 1.", "Một token vào: T = 1.", "一个词元进入：T = 1。")),
            ("1B", (), Words("It needs the ids of the {look_back} tokens before it, which the cache remembers.",
                             "Cần id của {look_back} token trước đó, cache có giữ.", "需要它之前 {look_back} 个词元的 id，缓存里有。")),
            ("2A", (), Words("Its streams collapse into one input.", "Các luồng của nó gộp thành một đầu vào.", "它的各流合并成一个输入。")),
            ("3A", (), Words("A new token runs through all {L} layers, one after the other.", "Token mới đi qua cả {L} lớp, lần lượt.",
                             "新词元依次经过全部 {L} 层。")),
            ("3B", (), Words("Layer {single_source} makes an entry now; layers {pair_sources} wait until a pair is complete.",
                             "Lớp {single_source} tạo entry ngay; lớp {pair_sources} chờ đủ một cặp.",
                             "第 {single_source} 层立即生成条目；第 {pair_sources} 层等凑满一对。")),
            ("6A", (), Words("The cache grows: {total} B per token on average.", "Cache lớn thêm: trung bình {total} B mỗi token.",
                             "缓存增长：平均每词元 {total} B。")),
            ("3C", MEMORY, Words("{full} layers score every visible index key; {reindex} later ones only the candidates. The others borrow the choice.",
                                 "{full} lớp chấm điểm mọi khoá thấy được; {reindex} lớp sau chỉ xét tập ứng viên. Các lớp khác mượn kết quả.",
                                 "{full} 层给所有可见的索引键打分；其后 {reindex} 层只看候选集；其余各层借用结果。")),
            ("4A", ATTEND, Words("At most {topk} entries and {window} window rows are read, however long the past is.",
                                 "Đọc tối đa {topk} entry và {window} hàng cửa sổ, dù quá khứ dài bao nhiêu.",
                                 "最多读取 {topk} 条条目和 {window} 行窗口，无论历史多长。")),
            ("5A", (("5A", "2A"),), Words("{chosen} of {experts} experts run. Then the next layer, {L} times in all.",
                                          "{chosen} trong {experts} chuyên gia chạy. Rồi đến lớp kế, tổng cộng {L} lần.",
                                          "{experts} 个专家中运行 {chosen} 个；然后下一层，共 {L} 次。")),
            ("6B", (("6B", "1A"),), Words("Scores give the next token, which enters at 1A.", "Điểm số cho token kế tiếp, nó lại vào ở 1A.",
                                          "分数给出下一个词元，它再从 1A 进入。")),
        ),
    ),
    "draft": (
        Words("Draft", "Sinh nháp", "草稿"),
        (
            ("6B", (), Words("{draft_layers} small blocks read what entered layers {targets} and guess {drafts} tokens.",
                             "{draft_layers} khối nhỏ đọc đầu vào của lớp {targets} và đoán {drafts} token.",
                             "{draft_layers} 个小块读取第 {targets} 层的输入，猜出 {drafts} 个词元。")),
            ("1A", (), Words("The known token and its drafts enter together: T = {verified}.",
                             "Token đã biết và các token nháp vào cùng nhau: T = {verified}.", "已知词元与草稿一起进入：T = {verified}。")),
            ("1B", (), Words("Drafts look back at each other, as if they were real.", "Các token nháp nhìn lại nhau như thể là thật.",
                             "草稿词元像真的一样相互回看。")),
            ("2A", (), Words("{verified} inputs instead of one, for each layer.", "{verified} đầu vào thay vì một, cho mỗi lớp.",
                             "每层 {verified} 个输入，而不是一个。")),
            ("3A", (), Words("One pass through {L} layers checks all of them.", "Một lượt qua {L} lớp kiểm tra tất cả.",
                             "一趟 {L} 层就能全部检查。")),
            ("3B", (), Words("Entries are made for tokens that may not survive.", "Tạo entry cho những token có thể không được giữ.",
                             "为可能保留不下来的词元生成条目。")),
            ("6A", (), Words("They are written, and can be cut off again.", "Chúng được ghi và có thể bị cắt bỏ.", "先写入，之后可以截掉。")),
            ("3C", MEMORY, Words("Each of the {verified} queries picks its own {topk} entries.", "Mỗi truy vấn trong {verified} tự chọn {topk} entry.",
                                 "{verified} 个查询各自选出 {topk} 条。")),
            ("4A", ATTEND, Words("No draft sees a later one: the mask is causal.", "Token nháp không thấy token sau nó: mặt nạ nhân quả.",
                                 "草稿看不到更晚的草稿：因果掩码。")),
            ("5A", (("5A", "2A"),), Words("More tokens share each expert that is read.", "Nhiều token dùng chung mỗi chuyên gia được đọc.",
                                          "读入的每个专家由更多词元分摊。")),
            ("6B", (), Words("Drafts are accepted up to the first that the model would not have said.",
                             "Chấp nhận các token nháp cho đến token đầu tiên mà mô hình sẽ không nói.",
                             "草稿被接受到第一个模型不会说出的词元为止。")),
            ("6A", (), Words("Rows of rejected drafts are cut off; nothing of them remains.", "Hàng của token nháp bị loại được cắt bỏ, không còn gì.",
                             "被拒草稿的行被截掉，不留痕迹。")),
        ),
    ),
}  # fmt: skip
