package benchmark;

import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Handles each message by waiting, and prints the seconds from the first handled one to the last.
 *
 * <p>System properties: bootstrap, group, topic, messages, atOnce, ioMs.
 */
public class KeyBenchmark {

    private static final int MESSAGES = Integer.getInteger("messages");
    private static final long IO_MS = Long.getLong("ioMs");

    public static void main(String[] arguments) throws InterruptedException {
        var settings = new Properties();
        settings.put("bootstrap.servers", System.getProperty("bootstrap"));
        settings.put("group.id", System.getProperty("group"));
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        var bytes = new ByteArrayDeserializer();
        var options =
                ParallelConsumerOptions.<byte[], byte[]>builder()
                        .consumer(new KafkaConsumer<>(settings, bytes, bytes))
                        .ordering(ProcessingOrder.KEY)
                        .maxConcurrency(Integer.getInteger("atOnce"))
                        .build();
        var handled = new AtomicInteger();
        var begun = new AtomicLong();
        var ended = new CountDownLatch(1);
        try (var processor = ParallelStreamProcessor.createEosStreamProcessor(options)) {
            processor.subscribe(List.of(System.getProperty("topic")));
            processor.poll(context -> {
                sleep();
                int count = handled.incrementAndGet();
                if (count == 1) {
                    begun.set(System.nanoTime());
                } else if (count == MESSAGES) {
                    begun.set(System.nanoTime() - begun.get());
                    ended.countDown();
                }
            });
            ended.await();
        }
        System.out.println(begun.get() / 1e9);
    }

    private static void sleep() {
        try {
            Thread.sleep(IO_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
